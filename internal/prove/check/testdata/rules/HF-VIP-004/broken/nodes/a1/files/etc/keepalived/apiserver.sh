#!/bin/sh
# the port of the apiserver; /readyz would be better
exec nc -z localhost 6443
