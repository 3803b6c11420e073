#!/usr/bin/env bash
# How fast and how large the emulator is next to the real server, on the same machine in the same minutes.
#
#   tests/benches/against_redis.sh [ROUNDS] [REQUESTS]
#
# Builds the release, starts both servers on free ports of the loopback device, and lets `redis-benchmark` with 50 connections send
# REQUESTS requests (500,000) of each kind without a pipeline, and twice as many with one of 16. Without a pipeline, one thread of
# `redis-benchmark` has more to do than the server, so it gets two. In every round (5) each server has its turn at each line,
# so that noise hits both. A line shows the medians of the rounds: requests a second, and the processor time that the
# server itself took for one request, which depends less on what else the machine does. A ratio above 1 is in the emulator's favour.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-5}
requests=${2:-500000}
members=100000
million_keys=1000000
idle_connections=10000
compare_and_delete="if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

cargo build --release --quiet --bin lockstep
ulimit -n "$(ulimit -Hn)"
scratch=$(mktemp -d)
servers=()
finish() {
    ((${#servers[@]})) && kill "${servers[@]}" 2>/dev/null
    rm -rf "$scratch"
}
trap finish EXIT

free_port() {
    local port
    for port in $(shuf -i 20000-32000 -n 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port" && return; }
    done
}

# Starts a server of the kind $1 (ours, redis); its port is then in $port and its process in $pid.
start() {
    port=$(free_port)
    case $1 in
        ours) "${CARGO_TARGET_DIR:-target}/release/lockstep" serve --addr "127.0.0.1:$port" >/dev/null & ;;
        redis) redis-server --port "$port" --save '' --appendonly no >/dev/null & ;;
    esac
    pid=$!
    servers+=("$pid")
    until redis-cli -p "$port" config set maxclients $((idle_connections + 100)) >/dev/null 2>&1; do
        sleep 0.05
    done
}

declare -A ports pids
for server in ours redis; do
    start "$server"
    ports[$server]=$port
    pids[$server]=$pid
    redis-cli -p "$port" set lock another >/dev/null
    redis-cli -p "$port" eval "for i = 0, ARGV[1] - 1 do
        redis.call('zadd', KEYS[1], i, string.format('member:%012d', i))
    end" 1 zset "$members" >/dev/null
done

# Processor time of the process $1 so far, in ticks.
ticks() {
    awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"
}

# One turn of the server $1 with the pipeline $2: requests a second, and processor time of the server in µs a request.
turn() {
    local server=$1 pipeline=$2 before rps n=$requests threads=2
    shift 2
    ((pipeline > 1)) && n=$((n * 2)) threads=1
    before=$(ticks "${pids[$server]}")
    rps=$(redis-benchmark --threads "$threads" -p "${ports[$server]}" -c 50 -P "$pipeline" -n "$n" -r "$members" --csv "$@" 2>/dev/null |
        awk -F'","' 'END { print $2 }')
    awk -v rps="$rps" -v ticks=$(($(ticks "${pids[$server]}") - before)) -v hz="$(getconf CLK_TCK)" -v n="$n" \
        'BEGIN { printf "%s %.3f\n", rps, ticks / hz * 1e6 / n }'
}

median() {
    sort -g | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}

line() {
    local name=$1 pipeline round server file
    shift
    for pipeline in 1 16; do
        for round in $(seq "$rounds"); do
            for server in $( ((round % 2)) && echo ours redis || echo redis ours); do
                turn "$server" "$pipeline" "$@" >>"$scratch/$name.$pipeline.$server"
            done
        done
        file="$scratch/$name.$pipeline"
        awk -v name="$name" -v pipeline="$pipeline" \
            -v ours="$(cut -d' ' -f1 "$file.ours" | median)" -v redis="$(cut -d' ' -f1 "$file.redis" | median)" \
            -v our_time="$(cut -d' ' -f2 "$file.ours" | median)" -v redis_time="$(cut -d' ' -f2 "$file.redis" | median)" \
            'BEGIN { printf "%-6s %3d %10d %10d %6.2f   %8.2f %8.2f %6.2f\n", name, pipeline, ours, redis, ours / redis, \
                our_time, redis_time, our_time ? redis_time / our_time : 0 }'
    done
}

echo "                requests a second           server time in µs"
echo "          -P       ours      redis  ratio       ours    redis  ratio"
line SET set key:__rand_int__ value
line GET get key:__rand_int__
line INCR incr counter:__rand_int__
line HSET hset hash field:__rand_int__ value
line ZADD zadd zset __rand_int__ member:__rand_int__
line ZRANK zrank zset member:__rand_int__
line EVAL eval "$compare_and_delete" 1 lock mine

# Resident memory of the process $1, in KiB.
resident() {
    awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"
}

connections() {
    redis-cli -p "$1" info clients | awk -F: '/^connected_clients:/ { n = $2 } END { print n + 0 }'
}

# Resident memory that an idle connection to the server on port $1 with process $2 takes, in bytes; `-` if some are refused.
connection_memory() {
    local before after idlers tries=0
    before=$(resident "$2")
    redis-benchmark -p "$1" -c "$idle_connections" -I >/dev/null 2>&1 &
    idlers=$!
    while (($(connections "$1") < idle_connections && tries++ < 100)); do
        sleep 0.1
    done
    after=$(resident "$2")
    kill "$idlers"
    ((tries < 100)) && echo $(((after - before) * 1024 / idle_connections)) || echo -
}

echo
echo "resident memory       ours      redis"
declare -A idle connection full
for server in ours redis; do
    start "$server"
    connection[$server]=$(connection_memory "$port" "$pid")
    start "$server"
    idle[$server]=$(resident "$pid")
    seq -f 'SET key:%07.0f value' "$million_keys" | redis-cli -p "$port" --pipe >/dev/null
    full[$server]=$(resident "$pid")
done
printf 'idle, KiB       %10d %10d\n' "${idle[ours]}" "${idle[redis]}"
printf 'a connection    %10s %10s   (bytes; %d idle ones)\n' "${connection[ours]}" "${connection[redis]}" "$idle_connections"
printf 'a key           %10d %10d   (bytes; 1,000,000 keys of 11 bytes with values of 5)\n' \
    $(((full[ours] - idle[ours]) * 1024 / million_keys)) $(((full[redis] - idle[redis]) * 1024 / million_keys))
