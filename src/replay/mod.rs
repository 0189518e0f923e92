//! Independent re-computation of what a capture recorded.
