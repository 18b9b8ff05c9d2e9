/**
 * What makes the pages better than they are without it: every page works when this does not run.
 * Nothing here writes HTML, keeps a secret, or asks a server.
 */

const status = document.getElementById('status')

function say(text) {
  status.textContent = ''
  // An empty region first: the same words said twice are two messages.
  requestAnimationFrame(() => {
    status.textContent = text
  })
}

// What the page came with is not read out by itself; put there anew it is.
const said = status.textContent
if (said !== '') {
  setTimeout(() => {
    if (status.textContent === said) status.replaceChildren(said)
  }, 300)
}

document.querySelector('[data-focus]')?.focus()

for (const input of document.querySelectorAll('[data-count]')) {
  const counter = document.querySelector(`[data-counter="${input.id}"]`)
  const most = Number(input.dataset.count)
  const show = () => {
    const left = most - [...input.value.trim()].length
    counter.textContent = left < 0 ? `${-left} too many.` : `${left} left.`
  }
  input.addEventListener('input', show)
  show()
}

for (const preset of document.querySelectorAll('[data-preset]')) {
  preset.addEventListener('click', (event) => {
    event.preventDefault()
    const scopes = preset.dataset.preset.split(' ')
    for (const box of document.querySelectorAll('input[name="scopes"]')) {
      box.checked = scopes.includes(box.value)
    }
  })
}

/** A second click while the first is under way sends nothing. */
for (const form of document.querySelectorAll('form[data-once]')) {
  form.addEventListener('submit', (event) => {
    if (form.dataset.sent) event.preventDefault()
    form.dataset.sent = 'yes'
    form.querySelector('button:not([type="button"])')?.setAttribute('aria-disabled', 'true')
  })
}
// A page that the browser kept comes back as it was left.
addEventListener('pageshow', (event) => {
  if (!event.persisted) return
  for (const form of document.querySelectorAll('form[data-once]')) {
    delete form.dataset.sent
    form.querySelector('[aria-disabled]')?.removeAttribute('aria-disabled')
  }
})

for (const button of document.querySelectorAll('[data-copy]')) {
  const field = document.getElementById(button.dataset.copy)
  const [label] = button.childNodes
  button.hidden = false
  field.addEventListener('focus', () => field.select())
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(field.value)
      label.textContent = 'Copied'
      say('Copied.')
      setTimeout(() => {
        label.textContent = 'Copy'
      }, 3000)
    } catch {
      field.focus()
      field.select()
      say('Press Ctrl+C or ⌘C to copy.')
    }
  })
}

const reveal = document.querySelector('[data-reveal]')
if (reveal) {
  const stored = reveal.querySelector('#stored')
  const done = reveal.querySelector('[data-done]')
  const isStored = () => stored.checked
  done.disabled = !isStored()
  stored.addEventListener('change', () => {
    done.disabled = !isStored()
  })
  addEventListener('beforeunload', (event) => {
    if (!isStored()) event.preventDefault()
  })
}

/** A link that opens a dialog of the page; without script it leads to a page that asks the same. */
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

const code = document.querySelector('[data-from-fragment]')
if (code && location.hash.length > 1) {
  code.value = location.hash.slice(1)
  history.replaceState(null, '', location.pathname)
  document.getElementById('password').focus()
}
