"""Flows that ship as examples. Run them with ``flowguard replay``, read them to learn, copy from them."""
