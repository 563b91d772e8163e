package crashpoint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// R6.6: a process can be made to die, or stand still, at a named passage.
func TestPassages(t *testing.T) {
	armed, plain := build(t, "crashpoint"), build(t, "")
	for _, c := range []struct {
		name, program, point, action string
		killed                       bool
		out                          string
	}{
		{"not armed", armed, "", "", false, "0\n1\n2\n3\n4\nend true\n"},
		{"first passage", armed, "victim.here", "", true, ""},
		{"third passage", armed, "victim.here:3", "kill", true, "0\n1\n"},
		{"never reached", armed, "victim.here:6", "kill", false, "0\n1\n2\n3\n4\nend true\n"},
		{"other name", armed, "victim", "", false, "0\n1\n2\n3\n4\nend true\n"},
		{"built without the tag", plain, "victim.here", "", false, "0\n1\n2\n3\n4\nend false\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, out := victim(c.program, c.point, c.action)
			err := cmd.Run()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if killed := status.Signaled() && status.Signal() == syscall.SIGKILL; killed != c.killed || !killed && err != nil {
				t.Errorf("ended with %v", err)
			}
			if out.String() != c.out {
				t.Errorf("wrote %q, want %q", out, c.out)
			}
		})
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	armed := build(t, "crashpoint")
	for _, c := range [][2]string{{"victim.here:0", ""}, {"victim.here:x", ""}, {":1", ""}, {"victim.here", "pause"}} {
		cmd, out := victim(armed, c[0], c[1])
		if err := cmd.Run(); err == nil || out.Len() != 0 {
			t.Errorf("%q: %v, wrote %q", c, err, out)
		}
	}
}

func TestStopStandsStillUntilContinued(t *testing.T) {
	cmd, out := victim(build(t, "crashpoint"), "victim.here:2", "stop")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("status %v, %v", status, err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "0\n1\n2\n3\n4\nend true\n" {
		t.Errorf("wrote %q", got)
	}
}

func victim(program, point, action string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "UNAVEZ_CRASHPOINT="+point, "UNAVEZ_CRASHPOINT_ACTION="+action)
	out := new(bytes.Buffer)
	cmd.Stdout = out
	return cmd, out
}

func build(t *testing.T, tag string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "victim")
	out, err := exec.Command("go", "build", "-tags", tag, "-o", program, "./testdata/victim").CombinedOutput()
	if err != nil {
		t.Fatalf("building: %v\n%s", err, strings.TrimSpace(string(out)))
	}
	return program
}
