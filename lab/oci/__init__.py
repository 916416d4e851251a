# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OCI images: an image layout is read (layout.py), its layers are unpacked (layers.py) and its
process is described for the guest's init (service.py). Everything in an image is untrusted.
"""
