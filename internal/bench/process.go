package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, which Linux fixes for what it shows of processes.
const ticksPerSecond = 100

// stat is what Linux shows of a process.
type stat struct {
	parent int
	// own is its user and system time, children that of children it waited for.
	own, children time.Duration
}

func readStat(pid int) (stat, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The second field is the name in parentheses, which may hold anything.
	text := string(raw)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	number := func(field int) int64 { // as proc(5) numbers them
		n, parsed := strconv.ParseInt(fields[field-3], 10, 64)
		if parsed != nil {
			err = fmt.Errorf("process %d: field %d: %w", pid, field, parsed)
		}
		return n
	}
	ticks := func(n int64) time.Duration { return time.Duration(n) * time.Second / ticksPerSecond }
	return stat{int(number(4)), ticks(number(14) + number(15)), ticks(number(16) + number(17))}, err
}

// serverTime is the processor time of the database server with all that it
// started: living backends by themselves, ended ones through their parent.
func serverTime(postmaster int) (time.Duration, error) {
	root, err := readStat(postmaster)
	if err != nil {
		return 0, fmt.Errorf("reading the database server's processor time (it must run on this Linux machine): %w", err)
	}
	total := root.own + root.children
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if s, err := readStat(pid); err == nil && s.parent == postmaster { // others end meanwhile
			total += s.own + s.children
		}
	}
	return total, nil
}

// memory returns a figure of /proc/PID/status in MiB: VmRSS now, VmHWM at most.
func memory(pid int, name string) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d shows no %s", pid, name)
}
