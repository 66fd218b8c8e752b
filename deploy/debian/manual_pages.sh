#!/bin/sh
# manual_pages.sh BRRD BRRCTL DIR: writes manual pages from the help of the programs: brrd(8), brrctl(1) and brrctl-COMMAND(1).
set -eu
brrd=$1 brrctl=$2 out=$3
rm -rf "$out"
mkdir -p "$out/man1" "$out/man8"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
version=$("$brrd" --version | sed 's/^[a-z]* \([0-9.]*\).*/\1/')

# page PROGRAM SECTION NAME [COMMAND]: help2man reads a program's help, in which a usage line and sections begin with capitals.
page() {
    cat >"$work/program" <<TEXT
#!/bin/sh
$1 ${4:-} --help | sed -e '1s/^usage:/Usage:/' -e 's/^example:/Example:/' -e 's/^Exit codes:/Exit codes:\n/'
TEXT
    chmod +x "$work/program"
    summary=$5
    help2man --no-info --no-discard-stderr --section="$2" --name="$summary" --version-string="$version" --manual=brrd --source="brrd $version" \
        "$work/program" | sed -e "s/^\.TH [A-Z]*/.TH $(printf %s "$3" | tr a-z A-Z)/" -e "s/program/$3/g" >"$out/man$2/$3.$2"
}

page "$brrd" 8 brrd "" "EEG daemon: seizure detection, training and streaming"
page "$brrctl" 1 brrctl "" "command line client of the EEG daemon brrd"
commands=$("$brrctl" completion bash | sed -n 's/.*local commands="\(.*\) help"/\1/p')
for command in $commands; do
    page "$brrctl" 1 "brrctl-$command" "$command" "$("$brrctl" "$command" --help | sed -n 2p)"
done
find "$out" -type f -exec gzip -9n {} +
