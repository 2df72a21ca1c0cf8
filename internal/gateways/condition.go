package gateways

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// problem is the reason of a condition, and what a person should do about it.
type problem struct{ reason, message string }

func problemf[R ~string](reason R, format string, args ...any) *problem {
	return &problem{string(reason), fmt.Sprintf(format, args...)}
}

// firstOf returns the first problem that is not nil.
func firstOf(problems ...*problem) *problem {
	for _, p := range problems {
		if p != nil {
			return p
		}
	}
	return nil
}

// unless returns a condition of an object of a generation: false with the problem, or true with the reason fine if
// there is no problem. Its time is set when it is written.
func unless[T, R ~string](p *problem, kind T, fine R, generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: string(kind), Status: metav1.ConditionTrue, Reason: string(fine), ObservedGeneration: generation,
	}
	if p != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, p.reason, p.message
	}
	return c
}

// ifAny returns what unless returns, for a condition that is true if there is a problem.
func ifAny[T, R ~string](p *problem, kind T, fine R, generation int64) metav1.Condition {
	c := unless(p, kind, fine, generation)
	if p != nil {
		c.Status = metav1.ConditionTrue
	} else {
		c.Status = metav1.ConditionFalse
	}
	return c
}
