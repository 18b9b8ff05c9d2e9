/**
 * An index of the search terms that only versions without migration 0042 store. While a backend of such a version runs,
 * during an upgrade, its worker computes the terms of the debtors that migration 0042 logs, usually before a backend of
 * this version does. With the index, the worker of this version finds these debtors (debtors/ledger-totals.ts).
 */
import { index } from '../migrating/steps.ts'
import { isUnfolded } from './0042-folded-search-terms.ts'

/** The condition of the index. A query uses the index only if it has the same condition. */
export const UNFOLDED_TERM = `(${isUnfolded('term')})`

export const steps = [
  index(`create index debtor_terms_unfolded on debtor_terms (debtor_id)
    where ${UNFOLDED_TERM}`),
]
