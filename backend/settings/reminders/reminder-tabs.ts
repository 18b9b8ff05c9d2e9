import type { Html } from '../../html/html.ts'
import { renderTabs } from '../shell/layout.ts'

/** Renders the tabs of the reminder pages, with the number of reminders that await approval. */
export function renderReminderTabs(currentPath: string, awaitingApproval: number): Html {
  return renderTabs(
    'Reminders',
    [
      { path: '/settings/reminders', name: 'Next 14 days' },
      { path: '/settings/approvals', name: 'Approvals', count: awaitingApproval },
      { path: '/settings/messages', name: 'Log' },
      { path: '/settings/schedule', name: 'Schedule' },
      { path: '/settings/wording', name: 'Wording' },
      { path: '/settings/sender', name: 'Sender' },
      { path: '/settings/payment-details', name: 'How to pay' },
    ],
    currentPath,
  )
}
