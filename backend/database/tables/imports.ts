export interface ImportRow {
  id: string
  account_id: string
  file_name: string
  /** The label of the user who imported the file (`Actor.label`), e.g. the e-mail address. */
  imported_by: string
  created_at: string
}

/** A record that an import created, or changed (`correction`). */
export interface ImportRecordRow {
  import_id: string
  /** The id of the debtor, invoice or payment. */
  record_id: string
  account_id: string
  kind: 'customer' | 'invoice' | 'payment' | 'correction'
  /** When the import of this record was taken back; null: it was not. */
  taken_back_at: string | null
}

export interface ImportTables {
  imports: ImportRow
  import_records: ImportRecordRow
}
