#!/bin/sh
# status.sh STATUS COMMAND...: succeeds where the command ends with just this status within ten
# seconds and 1 GB of memory (address sanitizers need their shadow, and get no bound).
want=$1
shift
case "$2$1" in
*sanitize*) ;;
*) ulimit -v 1000000 ;;
esac
timeout 10 "$@"
got=$?
[ "$got" = "$want" ] && exit 0
echo "ended with status $got, expected $want: $*" >&2
exit 1
