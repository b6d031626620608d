#!/bin/sh
# Installs prober from the folder of an unpacked archive. It needs no network.
#
#   ./install.sh                      programs, man pages and completions below /usr/local
#   ./install.sh --prefix=DIR         ... below DIR
#   ./install.sh --service            also the systemd service, its user, and its files in /etc/prober (Linux, root)
#   ./install.sh --uninstall          removes what it installed; keeps /etc/prober and /var/lib/prober
#
# DESTDIR is put before all paths, for packages.
set -eu
cd "$(dirname "$0")"
prefix=/usr/local service= uninstall=
for argument; do
	case $argument in
	--prefix=/*) prefix=${argument#--prefix=} ;;
	--service) service=1 ;;
	--uninstall) uninstall=1 ;;
	-h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' install.sh && exit 0 ;;
	*) echo "install.sh: unknown argument $argument; --help lists the known ones" >&2 && exit 64 ;;
	esac
done
root=${DESTDIR:-}
unit=$root/etc/systemd/system/prober.service

# files prints where each file of the archive goes.
files() {
	for f in prober prober-probe; do echo "755 $f $prefix/bin/$f"; done
	for f in man/*.1; do echo "644 $f $prefix/share/man/man1/${f#man/}"; done
	echo "644 completions/prober.bash $prefix/share/bash-completion/completions/prober"
	echo "644 completions/_prober $prefix/share/zsh/site-functions/_prober"
	echo "644 completions/prober.fish $prefix/share/fish/vendor_completions.d/prober.fish"
	for f in LICENSE THIRD_PARTY_LICENSES.txt; do echo "644 $f $prefix/share/doc/prober/$f"; done
}

if [ -n "$uninstall" ]; then
	if [ -e "$unit" ]; then
		[ -n "$root" ] || systemctl disable --now prober.service
		rm -f "$unit"
		[ -n "$root" ] || systemctl daemon-reload
	fi
	files | while read -r _ _ to; do rm -f "$root$to"; done
	echo "prober is removed; /etc/prober and /var/lib/prober are kept"
	exit 0
fi

if [ -n "$service" ]; then
	[ -e systemd/prober.service ] || { echo "install.sh: --service needs the archive for Linux" >&2 && exit 1; }
	[ -n "$root" ] || [ "$(id -u)" = 0 ] || { echo "install.sh: --service needs root" >&2 && exit 1; }
fi
files | while read -r mode from to; do
	mkdir -p "$root${to%/*}"
	cp "$from" "$root$to.new"
	chmod "$mode" "$root$to.new"
	mv "$root$to.new" "$root$to" # a program that runs keeps its file
done
echo "installed $("$root$prefix/bin/prober" version 2>/dev/null | head -n 1 || echo prober) below $prefix"
[ -n "$service" ] || exit 0

mkdir -p "$root/etc/prober/pods.d" "$root/etc/prober/plugins" "$root/etc/systemd/system" "$root/etc/default"
[ -e "$root/etc/prober/prober.yaml" ] || cp systemd/prober.yaml "$root/etc/prober/prober.yaml"
[ -e "$root/etc/default/prober" ] || cp systemd/default "$root/etc/default/prober"
sed "s|/usr/bin/|$prefix/bin/|" systemd/prober.service >"$unit"
if [ -z "$root" ]; then
	id prober >/dev/null 2>&1 || useradd --system --user-group --home-dir /var/lib/prober --no-create-home --shell /usr/sbin/nologin prober
	systemctl daemon-reload
	systemctl enable --now prober.service
fi
echo "the service prober reads /etc/prober/prober.yaml"
