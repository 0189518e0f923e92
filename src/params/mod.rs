//! Request fields and their resolution, with provenance.
