#!/usr/bin/env bash
# Usage: fault.sh FAULT ...: what goes wrong with disks and servers, done to the native cluster.
#   shutdown NODE DISK            the file system gives errors from now on (xfs_io shutdown)
#   remount NODE DISK             the repair of that, once no pod has it mounted any more: waits for that, 60 s at most (a pod that starts meanwhile would take the empty folder)
#   throttle NODE DISK POD IOPS   reads a second of the disk for each container of the pod (by UID); 0 lifts it
#   evict NODE DISK               the page cache has no file of the disk, so that the next reads come from it
#   hang NODE DISK POD            reads of the disk by the pod (by UID) take hours
#   unhang NODE DISK POD          they end, and new ones take no longer than before
#   throttled NODE DISK POD       how many reads the throttle has let through
#   fill NODE DISK LEAVE [STEP]   a stranger's file takes all but LEAVE MiB; in steps of STEP MiB, 4 a second. LEAVE 0
#                                 without STEP keeps the disk full until unfill is called
#   unfill NODE DISK              the stranger's file goes
#   readonly NODE DISK [POD]      remounts it read-only, while the agent of a pod (by UID) is started again
#   writable NODE DISK            and writable
#   kill POD PROGRAM              SIGKILL to the processes of that name in the pod (by UID)
#   pids POD PROGRAM              the IDs of those processes
#   titles POD PROGRAM            what those processes call themselves, one a line
#   run NODE COMMAND...           runs a command in the node's network
#   unmount NODE DISK             the disk is no longer at /mnt/DISK of the node, and the folder is gone; running pods keep it
#   mount NODE DISK               and is there again
#   swap NODE DISK                another disk, a new one, is at /mnt/DISK of the node; mount NODE DISK takes it out again
#   add NODE DISK                 one more disk, a new one, for a volume with the path that is printed
#   drop NODE DISK                and it is gone
#   exec NODE COMMAND...          runs a command with the node's mounts and network
#   stop NODE                     the node loses its power
#   start NODE                    and has it again
#   pause PROGRAM                 stops a process of the control plane, such as kube-apiserver
#   continue PROGRAM              lets it go on
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=env.sh
. "$here/env.sh"
running || { echo "fault.sh: the cluster does not run" >&2; exit 1; }

# mounted NODE DISK: the path of the disk. It fails if no disk is there, as the fault would hit the machine's own disk then.
mounted() {
  local path
  path=$(disk_path "$1" "$2")
  inside findmnt --mountpoint "$path" >/dev/null || { echo "fault.sh: no disk $2 of $1 is mounted at $path; fault add makes one" >&2; exit 1; }
  echo "$path"
}

# device NODE DISK: the numbers of the disk's loop device
device() {
  local path
  path=$(mounted "$1" "$2") && inside stat -c '%Hd:%Ld' "$path"
}

# Version 2 of cgroups has one tree and other files.
cgroups=/sys/fs/cgroup/blkio
[[ ! -e /sys/fs/cgroup/cgroup.controllers ]] || cgroups=/sys/fs/cgroup

# containers POD: the cgroups of a pod's containers. A limit on a parent does not bind its children in version 1.
containers() { find $cgroups -mindepth 1 -type d -path "*/pod$1/*"; }

# pids POD PROGRAM: the IDs of the processes of that name in the pod (by UID)
pids() {
  local group pid
  for group in $(containers "$1"); do
    for pid in $(cat "$group/cgroup.procs"); do
      [[ $(cat "/proc/$pid/comm" 2>/dev/null) != "$2" ]] || echo "$pid" # it may have ended meanwhile
    done
  done
}

# limit_reads NODE DISK POD iops|bps LIMIT: limits the reads of each container of the pod (by UID); 0 lifts the limit.
limit_reads() {
  local numbers group limit=$5 found=
  numbers=$(device "$1" "$2")
  for group in $(containers "$3"); do
    if [[ $cgroups == */blkio ]]; then
      echo "$numbers $limit" >"$group/blkio.throttle.read_${4}_device"
    else
      if [[ $limit == 0 ]]; then limit=max; fi
      echo "$numbers r$4=$limit" >"$group/io.max"
    fi
    found=1
  done
  [[ $found ]] || { echo "fault.sh: no cgroup of pod $3" >&2; exit 1; }
}

free_mib() { inside df -m --output=avail "$1" | tail -1 | tr -d ' '; }

fault=${1:-help}
shift || true
case $fault in
shutdown)
  path=$(mounted "$1" "$2")
  inside sync -f "$path" # what was there for long is on a disk when it dies
  inside xfs_io -x -c shutdown "$path"
  ;;
remount)
  path=$(disk_path "$1" "$2")
  detach_disk "$1" "$2"
  inside umount "$path"
  for ((i = 0; i < 600; i++)); do # the file system lives as long as a pod has it
    inside "$native/../disk" mount "$(disk_file "$1" "$2")" "$path"
    if inside ls "$path" >/dev/null 2>&1; then
      attach_disk "$1" "$2"
      exit 0
    fi
    inside umount "$path"
    sleep 0.1
  done
  echo "fault.sh: $path stays dead: something has it mounted" >&2
  exit 1
  ;;
throttle) limit_reads "$1" "$2" "$3" iops "$4" ;;
evict)
  path=$(mounted "$1" "$2")
  inside sync -f "$path" # pages that are not written yet would stay
  inside find "$path" -type f -print0 | inside xargs --null --no-run-if-empty xfs_io -r -c "fadvise -d 0 0" ||
    (($? == 123)) # a file went meanwhile
  ;;
hang) limit_reads "$1" "$2" "$3" bps 1 ;;
unhang) limit_reads "$1" "$2" "$3" bps 0 ;;
throttled)
  numbers=$(device "$1" "$2")
  if [[ $cgroups == */blkio ]]; then
    for group in $(containers "$3"); do cat "$group/blkio.throttle.io_serviced"; done | awk -v d="$numbers" '$1 == d && $2 == "Read" {n += $3} END {print n + 0}'
  else
    for group in $(containers "$3"); do cat "$group/io.stat"; done | sed -n "s/^$numbers .*rios=\([0-9]*\).*/\1/p" | awk '{n += $1} END {print n + 0}'
  fi
  ;;
fill)
  path=$(mounted "$1" "$2") step=${4-}
  if (($3 == 0)) && [[ -z $step ]]; then
    # nginx and the agent make room on a full disk: the file takes that too, until it goes.
    size=$(($(free_mib "$path") - 32)) # a file system does not allocate its last blocks as one
    inside sh -c ": >$path/stranger; fallocate -l ${size}M $path/stranger
      while dd if=/dev/zero of=$path/stranger bs=1M oflag=append conv=notrunc,nocreat 2>/dev/null || [ -e $path/stranger ]; do
        sleep 0.1
      done"
    exit
  fi
  while (($(free_mib "$path") > $3)); do
    left=$(($(free_mib "$path") - $3))
    inside sh -c "head -c $((step && step < left ? step : left))M /dev/zero >>$path/stranger" || break # full is full
    [[ -z $step ]] || sleep 0.25
  done
  ;;
unfill) inside rm -f "$(disk_path "$1" "$2")/stranger" ;;
readonly) # refused while a file is open for writing: for moments by nginx, always by the agent, whose index is on the disk
  path=$(mounted "$1" "$2")
  for ((i = 0; i < 1000; i++)); do
    if [[ ${3-} ]] && ((i % 200 == 20)); then "$0" kill "$3" agent || true; fi
    if inside mount -o remount,ro "$path" 2>/dev/null; then exit 0; fi
  done
  echo "fault.sh: the disk is always written to" >&2
  exit 1
  ;;
writable) path=$(mounted "$1" "$2") && inside mount -o remount,rw "$path" ;;
pids) pids "$1" "$2" ;;
titles)
  for pid in $(pids "$1" "$2"); do
    { tr -s '\0 ' ' ' <"/proc/$pid/cmdline" && echo; } 2>/dev/null || true # it may have ended meanwhile
  done
  ;;
kill)
  found=$(pids "$1" "$2")
  [[ $found ]] || { echo "fault.sh: no $2 in pod $1" >&2; exit 1; }
  # shellcheck disable=SC2086 # one ID a word; one may have ended meanwhile
  kill -KILL $found 2>/dev/null || true
  ;;
run) node=$1 && shift && inside nsenter --net="/run/netns/$node" -- "$@" ;;
unmount) node_sh "on_node $1 umount /mnt/$2 && on_node $1 rmdir /mnt/$2" ;;
swap)
  image=$(disk_file "$1" "$2").swap
  "$native/../disk" make "$image" $disk_size
  node_sh "on_node $1 umount /mnt/$2 && on_node $1 $native/../disk mount $image /mnt/$2"
  ;;
add) # mounted as the other disks are, where the faults reach it too; the nodes see what is mounted there
  path=$(disk_path "$1" "$2")
  ! inside findmnt --mountpoint "$path" >/dev/null || { echo "fault.sh: $1 has a disk $2 already" >&2; exit 1; }
  "$native/../disk" make "$(disk_file "$1" "$2")" $disk_size
  inside mkdir -p "$path"
  inside "$native/../disk" mount "$(disk_file "$1" "$2")" "$path"
  echo "$path"
  ;;
drop)
  path=$(mounted "$1" "$2")
  detach_disk "$1" "$2"
  inside umount --lazy "$path"
  rm -f "$(disk_file "$1" "$2")"
  ;;
mount) detach_disk "$1" "$2" && attach_disk "$1" "$2" ;;
exec) node=$1 && shift && node_sh "on_node $node $*" ;;
stop) node_sh "stop_node $1" ;;
start) node_sh "ip link set v-$1 up && start_node $1" ;;
pause | continue)
  signal=STOP
  [[ $fault == pause ]] || signal=CONT
  # Only what is in the cluster's own process namespace.
  inside pkill -"$signal" -x "${1:0:15}"
  ;;
*) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" && exit 2 ;;
esac
