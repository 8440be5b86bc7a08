"""The composition root: what puts the parts together, in plain constructors."""

from zorivest_rpc.app.journal import Journal
from zorivest_rpc.app.policy import policy_of

__all__ = ["Journal", "policy_of"]
