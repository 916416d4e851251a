# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Parts of a guest's root: a tree (Debian's packages, an image, a folder), our additions
(personalise.py), and a file system (image.py). lab/setup/root.py makes products of them.
"""
