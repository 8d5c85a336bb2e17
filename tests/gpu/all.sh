#!/usr/bin/env bash
# Everything that wants a real GPU, each part with a limit of its own and none hiding another: bash tests/gpu/all.sh FOLDER [PART…]
# Prints one line a part and the end of what failed; the outputs lie in FOLDER, and all of them in FOLDER/results.tar.gz.
# OLD_TORCHMETRICS names a folder to import torchmetrics 1.6.1 from; without it the parts that want it are left out.
out=$(realpath "$1"); shift
cd "$(dirname "$0")/../.." || exit 2
parts=${*:-laws catalogue suite predict predict-old speed profile bench bench-old bench-loader bench-small bench-small-old}
work=$(mktemp -d)
export PYTHONPATH="$PWD/src:$PYTHONPATH" PYTHONUNBUFFERED=1
old="$OLD_TORCHMETRICS:$PYTHONPATH"
python=${PYTHON:-python3}
test="$python -m pytest -W default --disable-warnings -p no:randomly"
tally() { "$python" -c 'from torchtally.commands import main; main()' "$@"; }
export -f tally; export python
experiment="tally bench --device cuda --data ready --log-interval 100"
prediction="tally bench --device pretend --price h200 --data ready"

part() { # name, seconds, command
    case " $parts " in *" $1 "*) ;; *) return ;; esac
    local begin=$SECONDS
    timeout -k 5 "$2" bash -c "$3" >"$work/$1.txt" 2>&1
    local code=$?
    echo "== $1: exit code $code after $((SECONDS - begin)) s" >>"$work/$1.txt"
    tail -n 1 "$work/$1.txt"
    ((code)) && tail -n 13 "$work/$1.txt" | head -n 12 | cut -c 1-300
    keep
}
keep() { tar -czf "$work.tar.gz" -C "$work" . && cp "$work.tar.gz" "$out/results.tar.gz"; }

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>&1 | tail -n 1
"$python" -c 'import sys, torch, torchmetrics, torchtally; print(sys.version.split()[0], torch.__version__, torchmetrics.__version__)'

# Right or wrong: side by side, since nothing of it is timed.
part laws 160 "OMP_NUM_THREADS=1 $test tests/gpu -n 6 --deselect tests/gpu/test_catalogue_on_gpu.py --junitxml $work/laws.xml --timeout 120 -rfEs" &
part catalogue 120 "$python tests/gpu/check_catalogue.py" &
part suite 170 "OMP_NUM_THREADS=1 $test tests/stalls tests/ranks/test_devices.py tests/test_testing.py tests/test_laws_no_stalls.py -n 7 --dist loadfile --timeout 120 -rf" &
wait
keep
part predict 70 "$prediction --all --json $work/predicted.json"
[ -n "$OLD_TORCHMETRICS" ] && part predict-old 70 "PYTHONPATH=$old $prediction --torchmetrics 1.6.1 --json $work/predicted-old.json"

# Timed: one after the other.
part speed 110 "$python -m benchmarks.gpu --json $work/speed.json"
part profile 70 "tally bench --device cuda --data ready --variant naive --variant torchtally --steps 50 --log-interval 50 --profile --logdir $work/traces
    for v in naive torchtally; do tally stalls $work/traces/\$v/*.json; done; gzip $work/traces/*/*.json"
part bench 130 "$experiment --all --steps 100 --json $work/bench.json"
[ -n "$OLD_TORCHMETRICS" ] && part bench-old 70 "PYTHONPATH=$old $experiment --torchmetrics 1.6.1 --steps 300 --json $work/bench-old.json"
part bench-loader 90 "tally bench --device cuda --steps 200 --json $work/bench-loader.json"
part bench-small 60 "$experiment --batch 32 --steps 600 --json $work/bench-small.json"
[ -n "$OLD_TORCHMETRICS" ] && part bench-small-old 60 "PYTHONPATH=$old $experiment --torchmetrics 1.6.1 --batch 32 --steps 600 --json $work/bench-small-old.json"

for file in laws catalogue suite; do [ -f "$work/$file.txt" ] && tail -n 6 "$work/$file.txt" | cut -c 1-300; done
cp "$work"/*.json "$out" 2>/dev/null
exit 0
