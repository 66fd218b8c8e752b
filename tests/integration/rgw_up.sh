#!/usr/bin/env bash
# One Ceph RADOS gateway in memory on loopback: an S3 server that really checks signatures. For tests alone.
# Debian packages: radosgw ceph-mon ceph-osd ceph-common (--no-install-recommends).
# usage: rgw_up.sh DIR MON_PORT S3_PORT [BYTES]; it runs until killed: kill -9 $(cat DIR/run/*.pid)
set -euo pipefail
dir=$1 mon_port=$2 s3_port=$3
mkdir -p "$dir"/{mon,osd,rgw,run,log}
cd "$dir"

cat >ceph.conf <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = [v1:127.0.0.1:$mon_port]
public network = 127.0.0.0/8
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 2000
run dir = $dir/run
pid file = $dir/run/\$name.pid
log file = $dir/log/\$name.log
admin socket = $dir/run/\$name.asok
[mon.a]
mon data = $dir/mon
[osd.0]
osd data = $dir/osd
osd objectstore = memstore
# At its start the OSD would tell the monitor its place in the CRUSH map; that call is refused ("wrong fsid") and ends the OSD when it comes
# before the OSD has the monitor's map. The place is set below instead.
osd crush update on start = false
osd class update on start = false
memstore device bytes = ${4:-1073741824}
[client.rgw.a]
rgw data = $dir/rgw
rgw dns name = s3.localhost
rgw frontends = beast endpoint=127.0.0.1:$s3_port
CONF

ceph_() { timeout 20 ceph -c ceph.conf "$@"; }
# again TIMES COMMAND: these programs lose a race with the monitor's election now and then
again() {
    local left=$1
    shift
    until "$@"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { echo "rgw_up: $* failed; see $dir/log" >&2; exit 1; }
        sleep 0.5
    done
}

{
    ceph-authtool --create-keyring mon.keyring --gen-key -n mon. --cap mon 'allow *'
    monmaptool --create --clobber --addv a "[v1:127.0.0.1:$mon_port]" --fsid "$(sed -n 's/^fsid = //p' ceph.conf)" monmap
    ceph-mon -c ceph.conf --mkfs -i a --monmap monmap --keyring mon.keyring
    ceph-mon -c ceph.conf -i a --public-addr "127.0.0.1:$mon_port"
    again 30 ceph_ mon stat
    osd=$(cat /proc/sys/kernel/random/uuid)
    again 3 ceph_ osd new "$osd"
    again 3 ceph_ osd crush create-or-move osd.0 1.0 root=default host=local
    again 3 ceph-osd -c ceph.conf -i 0 --mkfs --osd-uuid "$osd"
    again 3 ceph-osd -c ceph.conf -i 0
    timeout 60 radosgw-admin -c ceph.conf user create --uid=brrd --display-name=brrd --access-key=BRRDACCESSKEY0000001 \
        --secret-key=brrd/secret+key=
    radosgw -c ceph.conf -n client.rgw.a
    again 100 curl -s -o answer -m 1 "http://127.0.0.1:$s3_port/"
} >up.log 2>&1
