package lab

import "testing"

func TestKilledOf(t *testing.T) {
	for text, want := range map[string]int64{
		"oom_kill_disable 0\nunder_oom 0\noom_kill 11\n":               11, // cgroup v1
		"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n": 2,
	} {
		if got, err := killedOf(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	if _, err := killedOf("oom_kill_disable 0\n"); err == nil {
		t.Error("a kernel that counts nothing is no error")
	}
}

func TestWrittenOf(t *testing.T) {
	const stat = "   64563        0   565836   131343    24775     9532  1724944    45244        0   150288   187246\n"
	if got, err := writtenOf(stat); err != nil || got != 1724944*512 {
		t.Errorf("%d, %v", got, err)
	}
	for _, text := range []string{"", "1 2 3 4 5 6", "1 2 3 4 5 6 x"} {
		if got, err := writtenOf(text); err == nil {
			t.Errorf("%q has %d bytes", text, got)
		}
	}
}
