package purgeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Answer describes the progress of a purge.
type Answer struct {
	Namespace string `json:"namespace"`
	// Name is the name of the CachePurge. Requests that were gathered into one CachePurge get the same name.
	Name  string              `json:"name"`
	Phase v1alpha1.PurgePhase `json:"phase"`
	// Pods is the number of pods that the status of the CachePurge lists, at most 100.
	Pods int `json:"pods"`
	// Files and Bytes are the numbers of files and bytes that were removed or made stale, in all pods and for all
	// requests that were gathered.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// SlowestPod is a pod for which the purge waits. If it waits for no pod, SlowestPod is the pod that was the last to
	// apply the purge. It is "" if there is no such pod.
	SlowestPod string `json:"slowestPod"`
	// Message says what the purge waits for, or why it has failed.
	Message string `json:"message"`
}

func answerOf(cp *v1alpha1.CachePurge) Answer {
	s := cp.Status
	a := Answer{
		Namespace: cp.Namespace, Name: cp.Name, Phase: s.Phase, Pods: len(s.Pods), Files: s.Files, Bytes: s.Bytes,
		SlowestPod: s.SlowestPod, Message: s.Message,
	}
	if a.Phase == "" {
		a.Phase = v1alpha1.PurgePending
		a.Message = fmt.Sprintf("the operator has not seen the purge yet: is it running, and is there a CacheNode %s?",
			cp.Spec.CacheNode)
	}
	return a
}

// problem is an answer that says what is wrong with a request, or why the request cannot be answered at the moment.
type problem struct {
	code int
	text string
	// retry is the time after which the request may be sent again; 0 if the answer contains no such time.
	retry time.Duration
}

func (p *problem) Error() string { return p.text }

func unavailable(format string, args ...any) *problem {
	return &problem{code: http.StatusServiceUnavailable, text: fmt.Sprintf(format, args...), retry: time.Second}
}

// problemOf returns the answer for an error of the API server.
func problemOf(err error) *problem {
	if own, isOurs := errors.AsType[*problem](err); isOurs {
		return own
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		switch code := int(status.Status().Code); code {
		case http.StatusUnprocessableEntity, http.StatusBadRequest:
			return &problem{code: http.StatusBadRequest, text: causes(status)}
		case http.StatusRequestEntityTooLarge, http.StatusForbidden, http.StatusNotFound:
			return &problem{code: code, text: status.Status().Message}
		}
	}
	return unavailable("the API server does not answer as it should, send the request again: %s", err)
}

// causes returns the fields that the API server rejects, and the reasons.
func causes(status apierrors.APIStatus) string {
	details := status.Status().Details
	if details == nil || len(details.Causes) == 0 {
		return status.Status().Message
	}
	var list []string
	for _, cause := range details.Causes {
		field, text := strings.TrimPrefix(cause.Field, "spec."), strings.TrimPrefix(cause.Message, "Invalid value: ")
		if !strings.HasPrefix(text, field+": ") { // the messages of the CRD's own rules begin with the field
			text = field + ": " + text
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// isRefusal returns true if the API server rejects an object because of its content.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// write writes an answer as JSON.
func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has closed the connection
}

// writeProblem writes a problem as JSON.
func writeProblem(w http.ResponseWriter, p *problem) {
	if p.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retry.Seconds()))))
	}
	if p.code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	write(w, p.code, map[string]string{"error": p.text})
}
