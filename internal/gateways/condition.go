package gateways

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// problem contains the reason of a condition, and a message about what a person should do.
type problem struct{ reason, message string }

// problemf returns a problem. It cuts a message after 2000 bytes, because the message for a route with many rules can
// be longer than the API server accepts.
func problemf[R ~string](reason R, format string, args ...any) *problem {
	const most = 2000 // the API server accepts 32,768 characters
	message := fmt.Sprintf(format, args...)
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + " ..."
	}
	return &problem{string(reason), message}
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

// joined returns a problem with the messages of all problems, and the reason of the first one; nil if there is none.
func joined(problems []*problem) *problem {
	var messages []string
	for _, p := range problems {
		messages = append(messages, p.message)
	}
	if len(messages) == 0 {
		return nil
	}
	return problemf(problems[0].reason, "%s", strings.Join(messages, "; "))
}

// unless returns a condition for the given generation of an object. If there is a problem, the condition is false,
// with the reason and the message of the problem. Otherwise, the condition is true, with the reason fine. The time of
// the condition is set when the condition is written.
func unless[T, R ~string](p *problem, kind T, fine R, generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: string(kind), Status: metav1.ConditionTrue, Reason: string(fine), ObservedGeneration: generation,
	}
	if p != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, p.reason, p.message
	}
	return c
}

// ifAny does the same as unless, but the condition is true if there is a problem, and false otherwise.
func ifAny[T, R ~string](p *problem, kind T, fine R, generation int64) metav1.Condition {
	c := unless(p, kind, fine, generation)
	if p != nil {
		c.Status = metav1.ConditionTrue
	} else {
		c.Status = metav1.ConditionFalse
	}
	return c
}
