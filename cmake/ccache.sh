#!/bin/sh
# Runs a compiler through ccache: ccache.sh CCACHE COMPILER ARGUMENT...
#
# What ccache hashes is what the preprocessor says. When a precompiled header is made and an old one of the same name is
# there, that says "this file" instead of its content, and ccache hands out a header that was made from other sources (of
# another branch, say): objects then disagree about the layout of messages. So an old one goes first.
ccache=$1
shift
for argument; do
  case $argument in *.gch) rm -f "$argument" ;; esac
done
export CCACHE_SLOPPINESS=pch_defines,time_macros
exec "$ccache" "$@"
