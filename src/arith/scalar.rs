//! The contract in code: straight from the definition, one row at a time.
