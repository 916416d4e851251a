# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Makes what the machine needs: packages, kernel, guest root, loader, plugin. See products.py."""
