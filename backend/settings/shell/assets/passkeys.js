/** Creates passkeys, and logs in with them, in forms with the attribute `data-passkey`. */

/** The messages by error name. They are short, because the browser's own window has shown the details. */
const FAULTS = {
  NotAllowedError:
    'No passkey was used: the browser’s window was closed, or the time ran out. Try again.',
  InvalidStateError: 'This device already has a passkey for your login.',
  AbortError: 'No passkey was used. Try again.',
  SecurityError: 'The browser does not allow passkeys at this address.',
  NotSupportedError:
    'This device cannot store a passkey that is unlocked with a fingerprint, a face or a PIN.',
}

const isSupported =
  typeof globalThis.PublicKeyCredential?.parseCreationOptionsFromJSON === 'function' &&
  typeof PublicKeyCredential.parseRequestOptionsFromJSON === 'function'

const isPageOn = (host) => location.hostname === host || location.hostname.endsWith(`.${host}`)

for (const form of document.querySelectorAll('form[data-passkey]')) {
  const obstacle = isSupported ? (isPageOn(form.dataset.host) ? undefined : 'address') : 'browser'
  if (obstacle === undefined) {
    form.hidden = false
    form.addEventListener('submit', (event) => usePasskey(event, form))
  } else {
    document.querySelector(`[data-passkey-unavailable="${obstacle}"]`).hidden = false
  }
}

async function usePasskey(event, form) {
  event.preventDefault()
  const button = form.querySelector('button')
  const fault = form.querySelector('[data-passkey-fault]')
  // Ignores a second click while the browser's window is open.
  if (button.ariaDisabled === 'true') return
  button.ariaDisabled = 'true'
  fault.textContent = ''
  try {
    const credential = await requestCredential(form)
    form.elements.credential.value = JSON.stringify(credential.toJSON())
    form.submit()
  } catch (error) {
    fault.textContent = FAULTS[error.name] ?? error.message
    button.ariaDisabled = null
  }
}

async function requestCredential(form) {
  const options = await requestOptions(form)
  return form.dataset.passkey === 'create'
    ? navigator.credentials.create({
        publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options),
      })
    : navigator.credentials.get({
        publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options),
      })
}

async function requestOptions(form) {
  const { csrf_token, name } = form.elements
  let response
  try {
    response = await fetch(form.dataset.challenge, {
      method: 'POST',
      headers: {
        accept: 'application/json',
        'content-type': 'application/json',
        'x-csrf-token': csrf_token.value,
      },
      body: JSON.stringify(name === undefined ? {} : { name: name.value }),
    })
  } catch {
    throw new Error('There was no response. Try again.')
  }
  const body = await response.json()
  if (!response.ok) throw new Error(body.detail)
  return body
}
