// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers of PCI capabilities that the kernel sets up and that power-on clears.
 * Those behind the first 256 bytes are among them: error reporting (AER), access
 * control (ACS), address translation (ATS). pci_restore_state() would write most of
 * them, but it may sleep.
 *
 * Message signalled interrupts are not here: pci.c writes them from their
 * descriptors. Power states, link substates and virtual channels stay as firmware
 * leaves them, and virtual functions keep a machine off the fast path.
 */
#include <linux/pci.h>
#include "resume.h"

/**
 * struct rem_cap - a register of a capability
 * @id: of the capability
 * @extended: it is an extended one
 * @offset: of the register in the capability
 * @bytes: size of the register
 * @status: not copied: ones in it are events of before Go, and are written back to
 *	clear them
 * @skip: bits that are written as zeros
 */
struct rem_cap {
	u16 id;
	bool extended;
	u8 offset;
	u8 bytes;
	bool status;
	u32 skip;
};

#define CAP(_id, _offset, _bytes, _skip)                      \
	{                                                     \
		.id = PCI_CAP_ID_##_id, .offset = (_offset),  \
		.bytes = (_bytes), .skip = (_skip)            \
	}
#define EXT(_id, _offset, _bytes)                                  \
	{                                                          \
		.id = PCI_EXT_CAP_ID_##_id, .offset = (_offset),   \
		.bytes = (_bytes), .extended = true                \
	}
#define EXT_STATUS(_id, _offset)                                   \
	{                                                          \
		.id = PCI_EXT_CAP_ID_##_id, .offset = (_offset),   \
		.bytes = 4, .extended = true, .status = true       \
	}

/* In the order of writing: PASID before ATS, status before what reports it. */
static const struct rem_cap rem_caps[REM_PCI_CAPS] = {
	CAP(PM, PCI_PM_CTRL, 2,
	    PCI_PM_CTRL_PME_STATUS | PCI_PM_CTRL_STATE_MASK),
	EXT_STATUS(ERR, PCI_ERR_UNCOR_STATUS),
	EXT_STATUS(ERR, PCI_ERR_COR_STATUS),
	EXT(ERR, PCI_ERR_UNCOR_MASK, 4),
	EXT(ERR, PCI_ERR_UNCOR_SEVER, 4),
	EXT(ERR, PCI_ERR_COR_MASK, 4),
	EXT(ERR, PCI_ERR_CAP, 4),
	EXT_STATUS(ERR, PCI_ERR_ROOT_STATUS),
	EXT(ERR, PCI_ERR_ROOT_COMMAND, 4),
	EXT(ACS, PCI_ACS_CTRL, 2),
	EXT(PASID, PCI_PASID_CTRL, 2),
	EXT(PRI, PCI_PRI_ALLOC_REQ, 4),
	EXT(PRI, PCI_PRI_CTRL, 2),
	EXT(ATS, PCI_ATS_CTRL, 2),
	EXT(LTR, PCI_LTR_MAX_SNOOP_LAT, 4),
	EXT(DPC, PCI_EXP_DPC_CTL, 2),
	EXT(PTM, PCI_PTM_CTRL, 4),
};

/* Of the PCI Express capability, whose accessors know which a function has. */
static const u8 rem_exp_registers[REM_PCI_EXP_REGISTERS] = {
	PCI_EXP_DEVCTL,	 PCI_EXP_LNKCTL,  PCI_EXP_SLTCTL,  PCI_EXP_RTCTL,
	PCI_EXP_DEVCTL2, PCI_EXP_LNKCTL2, PCI_EXP_SLTCTL2,
};

/* The last two registers of AER exist only where errors are collected. */
static bool rem_cap_exists(struct pci_dev *pdev, const struct rem_cap *cap)
{
	int type = pci_is_pcie(pdev) ? pci_pcie_type(pdev) : -1;

	if (!cap->extended || cap->id != PCI_EXT_CAP_ID_ERR ||
	    cap->offset < PCI_ERR_ROOT_COMMAND)
		return true;
	return type == PCI_EXP_TYPE_ROOT_PORT || type == PCI_EXP_TYPE_RC_EC;
}

static u32 rem_cap_read(struct pci_dev *pdev, const struct rem_cap *cap, u16 at)
{
	u32 value = 0;
	u16 half = 0;

	if (cap->bytes == 4) {
		pci_read_config_dword(pdev, at, &value);
		return value;
	}
	pci_read_config_word(pdev, at, &half);
	return half;
}

static void rem_cap_write(struct pci_dev *pdev, const struct rem_cap *cap,
			  u16 at, u32 value)
{
	if (cap->bytes == 4)
		pci_write_config_dword(pdev, at, value);
	else
		pci_write_config_word(pdev, at, value);
}

/**
 * rem_pci_caps_prepare - copy the registers of a function's capabilities
 * @pdev: the function
 * @copy: to fill
 *
 * Context: process.
 */
void rem_pci_caps_prepare(struct pci_dev *pdev, struct rem_pci_caps *copy)
{
	unsigned int i;
	u16 at;

	for (i = 0; i < ARRAY_SIZE(rem_caps); i++) {
		const struct rem_cap *cap = &rem_caps[i];

		at = cap->extended ? pci_find_ext_capability(pdev, cap->id) :
				     pci_find_capability(pdev, cap->id);
		if (!at || !rem_cap_exists(pdev, cap)) {
			copy->at[i] = 0;
			continue;
		}
		copy->at[i] = at + cap->offset;
		copy->value[i] = rem_cap_read(pdev, cap, copy->at[i]) &
				 ~cap->skip;
	}
	for (i = 0; i < ARRAY_SIZE(rem_exp_registers); i++)
		pcie_capability_read_word(pdev, rem_exp_registers[i],
					  &copy->exp[i]);
}

/**
 * rem_pci_caps_go - write them back
 * @pdev: the function; its header is restored
 * @copy: by rem_pci_caps_prepare()
 *
 * Context: Go, one CPU, interrupts off.
 */
void rem_pci_caps_go(struct pci_dev *pdev, const struct rem_pci_caps *copy)
{
	unsigned int i;
	u32 value;

	for (i = 0; i < ARRAY_SIZE(rem_exp_registers); i++)
		pcie_capability_write_word(pdev, rem_exp_registers[i],
					   copy->exp[i]);
	for (i = 0; i < ARRAY_SIZE(rem_caps); i++) {
		if (!copy->at[i])
			continue;
		value = copy->value[i];
		if (rem_caps[i].status)
			value = rem_cap_read(pdev, &rem_caps[i], copy->at[i]);
		rem_cap_write(pdev, &rem_caps[i], copy->at[i], value);
	}
}
