"""An exhaustive search over small worlds: real decisions, real workers, a modelled environment.

See docs/proofs/model.md.
"""
