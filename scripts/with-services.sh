#!/usr/bin/env bash
# with-services.sh CMD [ARG…]
#
# Runs CMD with a private PostgreSQL whose address stands in
# UNAVEZ_TEST_POSTGRES, and stops the server however CMD or this script ends.
# CMD runs in a process group of its own, which a signal to this script ends as
# a whole; a CMD that wants a terminal's input does not belong here.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 CMD [ARG…]" >&2; exit 2; }
. "$(dirname "${BASH_SOURCE[0]}")/postgres.sh"

child='' received=''
grace_seconds=10

# What is left of CMD's group is asked to end, then made to.
end_child() {
	local waited
	[ -n "$child" ] || return 0
	kill -TERM -- "-$child" 2>/dev/null || return 0
	for ((waited = 0; waited < grace_seconds * 10; waited++)); do
		kill -0 -- "-$child" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -KILL -- "-$child" 2>/dev/null || true
}

finish() {
	trap '' INT TERM HUP
	end_child
	postgres_stop
}

receive() { received=$1; end_child; }

trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

postgres_start bound
export UNAVEZ_TEST_POSTGRES=$pg_url

# Should this script be killed outright, CMD is told to end by the kernel.
before=()
if command -v setpriv >/dev/null; then before=(setpriv --pdeathsig=TERM); fi
trap 'receive 130' INT
trap 'receive 143' TERM
trap 'receive 129' HUP
set -m
if [ -t 0 ]; then exec </dev/null; fi
${before[@]+"${before[@]}"} "$@" <&0 &
child=$!
set +m
status=0
wait "$child" || status=$?
[ -z "$received" ] || status=$received
exit "$status"
