# The front door. Everything is built by CMake; this file only names the presets and scripts.
#
# make              the library and the programs, optimised, in build/
# make run          the main jobs on real input (FOLDER=… other text files, DATA=… another CSV)
# make test         every check there is (FULL=1: the long campaigns, too)
# make bench        the benchmarks, and hymn beside other libraries (FULL=1: at all sizes)
# make format       formats all sources
# make tidy         clang-tidy over all sources
# make docs         the reference of the public headers, in build/docs (needs doxygen)
# make install      builds the library and the command, and installs them under PREFIX (default: /usr/local)
# make clean        removes build/
# make help         this text

PREFIX ?= /usr/local

.PHONY: all run test bench format tidy docs install clean help

all:
	@scripts/build release

run:
	@scripts/run-main $${FOLDER:+"$$FOLDER"}

test:
	@scripts/test-all $(if $(FULL),--full)

bench:
	@scripts/bench $(if $(FULL),--full)

format:
	@scripts/format

tidy:
	@scripts/tidy

docs:
	@scripts/docs

install:
	@scripts/build release hymn_installed
	cmake --install build --prefix "$(PREFIX)"

clean:
	rm -rf build

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile
