# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One file per command; each has `register(app: typer.Typer)` and is found by its name."""
