//! Devices that compute a step: `cpu`, and `cuda`, which says why it cannot.
