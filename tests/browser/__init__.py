"""A real browser for tests: headless Chromium from packages alone, and what npm checks of the artefacts."""
