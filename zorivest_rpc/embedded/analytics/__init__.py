"""The trading analytics as pure functions: no database, no network, no clock; values in, frozen values out."""
