# Sourced by the scripts beside it: finds, installs, starts and stops a
# PostgreSQL that belongs to the caller alone. It listens on a free loopback
# port, keeps its files in a fresh directory, and trusts every local user, so
# it must hold nothing but test data. fsync stays on: the crash tests and the
# benchmarks mean what they say.
#
#   postgres_find            sets pg_bin; installs PostgreSQL where that is allowed
#   postgres_start [bound]   sets pg_dir pg_pid pg_port pg_url; with "bound" the
#                            server dies with the calling shell, however that dies
#   postgres_stop            stops the server and removes its files

pg_version_min=15
pg_start_seconds_max=60
pg_port_tries_max=8
pg_bin='' pg_dir='' pg_pid='' pg_port='' pg_url=''

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

# The newest directory that holds a complete server of a supported version.
postgres_bin() {
	local dir version
	{
		printf '%s\n' "${UNAVEZ_POSTGRES_BIN:-}"
		ls -d /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql*/bin \
			/usr/local/opt/postgresql*/bin /usr/pgsql-*/bin 2>/dev/null | sort -rV
		pg_config --bindir 2>/dev/null || true
	} | while read -r dir; do
		[ -n "$dir" ] && [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ] && [ -x "$dir/pg_isready" ] || continue
		version=$("$dir/postgres" --version | sed -E 's/[^0-9]*([0-9]+).*/\1/')
		if [ "$version" -ge "$pg_version_min" ]; then printf '%s\n' "$dir"; break; fi
	done
}

postgres_find() {
	pg_bin=$(postgres_bin)
	[ -n "$pg_bin" ] && return
	postgres_install
	pg_bin=$(postgres_bin)
	[ -n "$pg_bin" ] || die "no PostgreSQL $pg_version_min or newer after the installation; set UNAVEZ_POSTGRES_BIN to the directory of its programs"
}

# apt-get would also create and start a cluster on port 5432; the drop-in says no.
postgres_install() {
	local sudo='' dropin=/etc/postgresql-common/createcluster.d/unavez-test.conf
	local missing="PostgreSQL $pg_version_min or newer is missing"
	command -v apt-get >/dev/null || die "$missing; install it, or set UNAVEZ_POSTGRES_BIN to the directory of its programs"
	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null || die "$missing and this user may not install it: run \"sudo apt-get install postgresql\""
		sudo='sudo -n'
	fi
	say "installing PostgreSQL through apt-get"
	apt_get() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >&2; }
	apt_get update || say "apt-get update did not succeed; going on with the lists at hand"
	apt_get install --no-install-recommends postgresql-common || die "apt-get could not install postgresql-common"
	$sudo mkdir -p "${dropin%/*}"
	printf 'create_main_cluster = false\n' | $sudo tee "$dropin" >/dev/null
	apt_get install --no-install-recommends postgresql || { $sudo rm -f "$dropin"; die "apt-get could not install postgresql"; }
	$sudo rm -f "$dropin"
}

# Runs a program as the server's user: the server refuses to be root.
as_postgres() {
	if [ "$(id -u)" = 0 ]; then (cd / && exec runuser -u postgres -- "$@"); else "$@"; fi
}

# Replaces the (sub)shell by the server, so that its pid is the server's.
exec_postgres() {
	local bound=$1; shift
	local before=()
	cd /
	if command -v setpriv >/dev/null; then
		[ "$(id -u)" = 0 ] && before+=(--reuid=postgres --regid=postgres --init-groups)
		[ "$bound" = bound ] && before+=(--pdeathsig=QUIT)
		[ ${#before[@]} = 0 ] || before=(setpriv "${before[@]}")
	elif [ "$(id -u)" = 0 ]; then
		before=(runuser -u postgres --)
	fi
	exec ${before[@]+"${before[@]}"} "$@"
}

postgres_start() {
	local bound=${1:-} locale=C try
	[ -n "$pg_bin" ] || postgres_find
	pg_dir=$(mktemp -d "${TMPDIR:-/tmp}/unavez-postgres.XXXXXX")
	if [ "$(id -u)" = 0 ]; then
		chown postgres "$pg_dir"
		if ! as_postgres test -w "$pg_dir"; then
			rmdir "$pg_dir"
			pg_dir=$(mktemp -d /tmp/unavez-postgres.XXXXXX)
			chown postgres "$pg_dir"
		fi
	fi
	locale -a 2>/dev/null | grep -qixE 'c\.utf-?8' && locale=C.UTF-8
	as_postgres "$pg_bin/initdb" -D "$pg_dir/data" -U postgres -A trust -E UTF8 \
		--locale="$locale" --no-sync >"$pg_dir/initdb.log" 2>&1 ||
		{ cat "$pg_dir/initdb.log" >&2; die "initdb did not succeed"; }
	# Another program may take a port between its choice and its use: try again.
	for ((try = 0; try < pg_port_tries_max; try++)); do
		pg_port=$((15000 + (RANDOM * 32768 + RANDOM) % 15000))
		postgres_launch "$bound" && return
		grep -q 'could not bind' "$pg_dir/server.log" || break
	done
	tail -n 20 "$pg_dir/server.log" >&2
	die "PostgreSQL did not start"
}

# One try on pg_port. The unix socket's directory is the private one, so that
# no other server's socket file stands in the way.
postgres_launch() {
	local waited
	( exec_postgres "$1" "$pg_bin/postgres" -D "$pg_dir/data" -p "$pg_port" \
		-c listen_addresses=127.0.0.1 -c unix_socket_directories="$pg_dir" \
		-c shared_buffers=128MB -c max_connections=200 -c max_wal_size=2GB \
		</dev/null >"$pg_dir/server.log" 2>&1 ) &
	pg_pid=$!
	for ((waited = 0; waited < pg_start_seconds_max * 10; waited++)); do
		kill -0 "$pg_pid" 2>/dev/null || { pg_pid=''; return 1; }
		if "$pg_bin/pg_isready" -q -h 127.0.0.1 -p "$pg_port" && kill -0 "$pg_pid" 2>/dev/null; then
			pg_url="postgres://postgres@127.0.0.1:$pg_port/postgres?sslmode=disable"
			return 0
		fi
		sleep 0.1
	done
	return 1
}

# SIGQUIT is the server's immediate stop: its data is about to be deleted.
postgres_stop() {
	local waited
	if [ -n "$pg_pid" ] && kill -0 "$pg_pid" 2>/dev/null; then
		kill -QUIT "$pg_pid" 2>/dev/null || true
		for ((waited = 0; waited < 100; waited++)); do
			kill -0 "$pg_pid" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL "$pg_pid" 2>/dev/null || true
	fi
	[ -z "$pg_dir" ] || rm -rf "$pg_dir"
	pg_pid='' pg_dir=''
}
