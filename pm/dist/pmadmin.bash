# SPDX-License-Identifier: Apache-2.0 OR MIT
# Completion of pmadmin for bash.
_pmadmin() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words
	case $before in
	destroy | resize | blocks | scrub | export | add | remove)
		words=$(pmadmin list 2>/dev/null | cut -d' ' -f1)
		;;
	ramdisk) words="add remove" ;;
	*)
		words="status list create destroy resize resize-region ramdisk blocks scrub lost check repair export"
		words+=" import watch --json --yes --block --mode --map-address --persist"
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _pmadmin pmadmin
