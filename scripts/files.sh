#!/usr/bin/env bash
# files.sh NAME…   prints the files here with one of the names (globs), ignored
# ones apart. Outside a working git (a tarball, a checkout of another user) it
# walks the tree instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
specs=() names=()
for name in "$@"; do
	specs+=("$name" "*/$name")
	names+=(-o -name "$name")
done
{
	git ls-files --cached --others --exclude-standard -- "${specs[@]}" 2>/dev/null ||
		find . \( -name '.?*' -o -name bin -o -name node_modules \) -prune -o \
			-type f \( "${names[@]:1}" \) -print | sed 's,^\./,,'
} | sort -u | while read -r file; do
	# Deleted and not yet committed: listed by git, not there.
	if [ -f "$file" ]; then printf '%s\n' "$file"; fi
done
