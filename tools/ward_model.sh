#!/usr/bin/env bash
# The model `ward`: models/ward.safetensors is what this made of a folder with the recordings that models/ward.md lists.
# usage: tools/ward_model.sh DIRECTORY [EEG]        (needs edfgen, brrd and python3 on the PATH; EEG: tools/ward_data.py)
# Without EEG the three databases come from PhysioNet's public bucket: all 24 cases of CHB-MIT (42 GB), 36 adults of eegmat, 109 of eegmmidb.
set -euo pipefail
dir=${1:?usage: tools/ward_model.sh DIRECTORY [EEG]}
here=$(dirname "$(dirname "$(readlink -f "$0")")")
mkdir -p "$dir"
dir=$(readlink -f "$dir")
for style in rich simple; do
    seed=$([ "$style" = rich ] && echo 5101 || echo 5102)
    edfgen --out "$dir/synthetic/$style" --patients 8 --hours-per-patient 0.5 --seizures-per-patient 5 --seed "$seed" --style "$style" --montage bipolar
done
cat >"$dir/daemon.yaml" <<END
paths: { data: $dir, cache: $dir/cache }
stores: { physionet: { url: "s3://physionet-open", region: us-east-1, anonymous: true } }
END
if [ $# -gt 1 ]; then
    python3 "$here/tools/ward_data.py" "$2" "$dir/eeg"
    chbmit=file://$dir/eeg/chbmit eegmat=file://$dir/eeg/eegmat eegmmidb=file://$dir/eeg/eegmmidb
else
    chbmit=store://physionet/chbmit/1.0.0 eegmat=store://physionet/eegmat/1.0.0 eegmmidb=store://physionet/eegmmidb/1.0.0
fi
sources="{uri: \"$chbmit\", weight: 1, name: chbmit}, {uri: \"$eegmat\", weight: 1, name: eegmat}, {uri: \"$eegmmidb\", weight: 1, name: eegmmidb}"
brrd run "$here/configs/ward.yaml" --config "$dir/daemon.yaml" --directory "$dir/model" --set data.unlabeled=background \
    --set "data.source=[$sources, {uri: \"file://$dir/synthetic\", weight: 1, name: synthetic}]"
last=$(find "$dir/model/checkpoints" -name 'step-*.safetensors' ! -name '*.state.*' | sort | tail -n 1)
python3 "$here/tools/model_blend.py" "$last" 0.5 "$dir/half.safetensors" # quieter on healthy people than the whole way: models/ward.md
python3 "$here/tools/model_notice.py" "$dir/half.safetensors" "$here/models/ward.notice" "$dir/ward.safetensors" \
    temperature=0.58 most_missing=10 # of people left out (tests/bench/real_eeg.py); models/ward.md
