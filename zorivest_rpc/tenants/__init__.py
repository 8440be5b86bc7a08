"""Several tenants behind one server: who they are, who may act for them, and the backends that some of them have."""
