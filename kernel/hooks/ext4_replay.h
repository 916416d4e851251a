/* SPDX-License-Identifier: GPL-2.0-only */
/* For fs/ext4/namei.c, also of a module: names that a replay of fast commits adds. */
#ifndef REM_EXT4_REPLAY_H
#define REM_EXT4_REPLAY_H

#ifdef CONFIG_REMANENCE
/**
 * rem_name_may_be_there - whether the folder may have a name that is to be added
 * @sb: the file system
 *
 * A replay adds names that a full commit before it, or a replay that was cut short, may
 * have added. Nobody else adds a name that is there.
 *
 * Return: true if it has to be looked for.
 */
static inline bool rem_name_may_be_there(const struct super_block *sb)
{
	return EXT4_SB(sb)->s_mount_state & EXT4_FC_REPLAY;
}
#else
static inline bool rem_name_may_be_there(const struct super_block *sb)
{
	return false;
}
#endif

#endif /* REM_EXT4_REPLAY_H */
