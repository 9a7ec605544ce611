"""The tests of flowguard, its flows and its documentation."""
