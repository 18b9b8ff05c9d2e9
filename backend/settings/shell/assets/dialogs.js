/**
 * Shows confirmations and the forms of actions in dialogs. Without this script, these are separate pages or expandable
 * panels.
 */

/** These links open a dialog that the page contains. */
for (const link of document.querySelectorAll('[data-dialog]')) {
  const dialog = document.getElementById(link.dataset.dialog)
  const parts = dialog.querySelectorAll('[data-fill]')
  link.setAttribute('role', 'button')
  link.setAttribute('aria-haspopup', 'dialog')
  const open = (event) => {
    event.preventDefault()
    for (const part of parts) part.textContent = link.dataset[part.dataset.fill]
    if (parts.length > 0) dialog.querySelector('form').action = link.href
    dialog.returnValue = ''
    dialog.showModal()
  }
  link.addEventListener('click', open)
  link.addEventListener('keydown', (event) => {
    if (event.key === ' ') open(event)
  })
}
for (const button of document.querySelectorAll('dialog [data-close]')) {
  button.addEventListener('click', () => button.closest('dialog').close())
}

/** Ids inside a dialog get a prefix, so that they do not collide with those of the page behind it. */
const DIALOG_ID_PREFIX = 'dialog-'

function adoptContent(content) {
  const adopted = document.importNode(content, true)
  for (const element of adopted.querySelectorAll('[id]')) element.id = DIALOG_ID_PREFIX + element.id
  for (const name of ['for', 'aria-labelledby', 'aria-describedby', 'data-counter']) {
    for (const element of adopted.querySelectorAll(`[${name}]`)) {
      const ids = element.getAttribute(name).split(' ')
      element.setAttribute(name, ids.map((id) => DIALOG_ID_PREFIX + id).join(' '))
    }
  }
  for (const link of adopted.querySelectorAll('a[href^="#"]')) {
    link.setAttribute('href', `#${DIALOG_ID_PREFIX}${link.getAttribute('href').slice(1)}`)
  }
  adopted.className = ''
  return adopted
}

/**
 * Requests another page and passes the request, with the parsed document, to `onEnd`. XMLHttpRequest parses the
 * document itself; Trusted Types forbid scripts to parse the text that `fetch` returns.
 */
function requestPage(method, url, body, onEnd) {
  const request = new XMLHttpRequest()
  request.open(method, url)
  request.responseType = 'document'
  request.setRequestHeader('accept', 'text/html')
  request.setRequestHeader('x-dialog', '1')
  request.addEventListener('loadend', () => onEnd(request))
  request.send(body)
}

const contentOf = (request) => request.response?.querySelector('[data-dialog-content]')

function showFault(form, text) {
  const fault = document.createElement('p')
  fault.className = 'fault'
  fault.setAttribute('role', 'alert')
  fault.textContent = text
  form.append(fault)
}

/** Shows the content in the dialog, which stays open if a form is rejected. */
function fillDialog(dialog, content, navigate) {
  const adopted = adoptContent(content)
  dialog.replaceChildren(adopted)
  const title = adopted.querySelector('h1, h2')
  if (title) dialog.setAttribute('aria-labelledby', title.id)
  dialog.setAttribute('role', adopted.querySelector('.danger.solid') ? 'alertdialog' : 'dialog')
  adopted.querySelector('[data-cancel]')?.addEventListener('click', (event) => {
    event.preventDefault()
    dialog.close()
  })
  for (const form of adopted.querySelectorAll('form')) {
    form.addEventListener('submit', (event) => submitInDialog(event, dialog, navigate))
  }
}

function submitInDialog(event, dialog, navigate) {
  const form = event.target
  // If the form was already sent, the listener in settings.js prevents a second request.
  if (form.dataset.sent) return
  event.preventDefault()
  const fields = new URLSearchParams(new FormData(form, event.submitter))
  requestPage('POST', form.action, fields, (request) => {
    const location = request.getResponseHeader('x-location')
    const content = contentOf(request) ?? request.response?.querySelector('main')
    if (location) {
      navigate(location)
    } else if (content) {
      fillDialog(dialog, content, navigate)
      dialog.querySelector('[data-focus], h1')?.focus()
    } else {
      showFault(form, 'It is not known whether the change was made. Load the page again to check.')
    }
  })
}

/** Whether the page of a dialog is being requested. Without this check, a double click would open two dialogs. */
let isOpening = false

function openPageDialog(link) {
  if (isOpening) return
  isOpening = true
  const dialog = document.createElement('dialog')
  requestPage('GET', link.href, undefined, (request) => {
    isOpening = false
    const content = request.status === 200 ? contentOf(request) : undefined
    if (!content) {
      location.assign(link.href)
      return
    }
    document.body.append(dialog)
    fillDialog(dialog, content, (path) => {
      const target = new URL(path, location.href)
      if (target.pathname + target.search === location.pathname + location.search) location.reload()
      else location.assign(target.href)
    })
    dialog.addEventListener('close', () => {
      dialog.remove()
      link.focus()
    })
    dialog.showModal()
    const firstField = dialog.querySelector(
      'input:not([type="hidden"]), select, textarea, [data-cancel]',
    )
    firstField?.focus()
  })
}

for (const link of document.querySelectorAll('a[data-dialog-page]')) {
  link.setAttribute('role', 'button')
  link.setAttribute('aria-haspopup', 'dialog')
}
document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[data-dialog-page]')
  const isPlainClick = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey)
  if (!link || !isPlainClick) return
  event.preventDefault()
  openPageDialog(link)
})
document.addEventListener('keydown', (event) => {
  if (event.key !== ' ' || !event.target.matches?.('a[data-dialog-page]')) return
  event.preventDefault()
  openPageDialog(event.target)
})

/** Turns panels into dialogs, so that only the form of one action is open at a time. */
for (const panel of document.querySelectorAll('details.action')) {
  const summary = panel.querySelector('summary')
  const form = panel.querySelector('form')
  const dialog = document.createElement('dialog')
  const title = document.createElement('h2')
  const cancel = document.createElement('button')
  const wasOpen = panel.open
  title.id = `${form.getAttribute('action').replaceAll('/', '-')}-title`
  title.textContent = summary.textContent.replace('…', '')
  cancel.type = 'button'
  cancel.textContent = 'Cancel'
  dialog.setAttribute('aria-labelledby', title.id)
  summary.setAttribute('role', 'button')
  summary.setAttribute('aria-haspopup', 'dialog')
  form.querySelector('p:last-child')?.classList.add('row')
  form.querySelector('p:last-child')?.prepend(cancel)
  form.prepend(title)
  dialog.append(form)
  panel.open = false
  panel.append(dialog)
  // A closed panel hides the dialog inside it, so the dialog is moved out of the panel.
  const open = (event) => {
    event?.preventDefault()
    document.body.append(dialog)
    dialog.showModal()
  }
  summary.addEventListener('click', open)
  cancel.addEventListener('click', () => dialog.close())
  dialog.addEventListener('close', () => {
    delete form.dataset.sent
    summary.focus()
  })
  if (wasOpen) open()
}
