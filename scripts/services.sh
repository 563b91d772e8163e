#!/usr/bin/env bash
# services.sh start|stop|status
#
# Keeps a private PostgreSQL up between commands, for work by hand. Its state
# stands in .cache/services; `stop` ends the server and deletes its data.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/postgres.sh
state=.cache/services/postgres

# Reads the state; false if there is none or the server has gone. A pid can be
# somebody else's by now, so the data directory's own lock file must agree.
running() {
	[ -s "$state" ] || return 1
	{ read -r pg_dir; read -r pg_pid; read -r pg_url; } <"$state"
	[ "$(head -n 1 "$pg_dir/data/postmaster.pid" 2>/dev/null)" = "$pg_pid" ] && kill -0 "$pg_pid" 2>/dev/null
}

show() {
	printf 'PostgreSQL  %s\n' "$pg_url"
	printf '\n  export UNAVEZ_TEST_POSTGRES=%s\n\nIt stays up until "make services-stop".\n' "'$pg_url'"
}

case ${1:-} in
start)
	if running; then show; exit 0; fi
	pg_dir='' pg_pid=''
	mkdir -p "${state%/*}"
	trap postgres_stop EXIT
	set -m
	postgres_start
	printf '%s\n%s\n%s\n' "$pg_dir" "$pg_pid" "$pg_url" >"$state"
	trap - EXIT
	show
	;;
stop)
	if running; then
		postgres_stop
		echo "stopped"
	else
		pg_pid=''
		case $pg_dir in */unavez-postgres.*) postgres_stop ;; esac
		echo "nothing was running"
	fi
	rm -f "$state"
	;;
status)
	if running; then show; else echo "nothing is running"; exit 1; fi
	;;
*)
	echo "usage: $0 start|stop|status" >&2
	exit 2
	;;
esac
