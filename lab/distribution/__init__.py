# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Debian packages and disks for people: published, made a second time elsewhere, checked."""
