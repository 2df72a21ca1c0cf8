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
