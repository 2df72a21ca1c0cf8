package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/movement"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// errAnnounced ends a pass before it changes anything: status and event say first what the next one will begin to move.
var errAnnounced = errors.New("announced")

// announceDelay is the time to the pass that begins what was announced.
const announceDelay = 100 * time.Millisecond

// hold finds out what the edit moves, and stops before anything is changed if that is more than the spec allows and nobody
// has acknowledged it.
func (r *CacheNodeReconciler) hold(ctx context.Context, s *scope) error {
	offered, err := readOffered(ctx, r.getOnce(s), s)
	if err != nil || offered.stable == nil {
		return err
	}
	if slices.Equal(tuning.ShardDisks(offered.stable.Spec.Disks), tuning.ShardDisks(s.wanted.Spec.Disks)) {
		return nil
	}
	m := movement.Between(offered.stable.Spec.Disks, s.wanted.Spec.Disks)
	s.movement = m.Status(s.used)
	if s.movement == nil {
		return nil
	}
	// What was said when it began stands: the disks fill and empty while the keys move.
	if said := s.node.Status.KeyMovement; said != nil && said.Name == s.movement.Name {
		s.movement.Bytes = said.Bytes
	}
	limit := s.node.Spec.Rollout.MaxKeyMovement
	if limit == nil || m.Slots <= int(*limit)*100 || s.node.Annotations[naming.AnnotationAcknowledged] == m.Name {
		if said := s.node.Status.KeyMovement; said == nil || said.Name != m.Name {
			return errAnnounced
		}
		return nil
	}
	s.held = true
	return &problem{
		reason: v1alpha1.ReasonKeyMovement, accepted: true,
		message: fmt.Sprintf("%s, more than rollout.maxKeyMovement, %d%%; nothing is changed until it is acknowledged: kubectl annotate --overwrite cachenode %s %s=%s",
			describeMovement(s.movement), *limit, s.node.Name, naming.AnnotationAcknowledged, m.Name),
	}
}

// describeMovement says what moves.
func describeMovement(m *v1alpha1.KeyMovement) string {
	var moves []string
	for _, move := range m.Moves {
		moves = append(moves, fmt.Sprintf("%s from %s to %s", move.Share, move.From, move.To))
	}
	return fmt.Sprintf("the edit of the disks moves %s of the keys, %s (%s)", m.Share, m.Bytes, listed(moves))
}

// usedBytes is what each disk holds over all pods, as far as their agents have told.
func usedBytes(observations map[string]Observation) map[string]int64 {
	used := map[string]int64{}
	for _, seen := range observations {
		for _, d := range seen.Report.Disks {
			used[d.Name] += d.Size / 100 * int64(d.UsedPercent)
		}
	}
	return used
}

// movementChange is the event about an edit that begins to move keys, or waits to.
func movementChange(before, after *v1alpha1.KeyMovement, held bool) []change {
	if after == nil || (before != nil && before.Name == after.Name) {
		return nil
	}
	note := describeMovement(after)
	if held {
		note += "; it waits to be acknowledged"
	}
	return []change{{kind: corev1.EventTypeNormal, reason: "KeyMovement", action: "Rollout", note: strings.ToUpper(note[:1]) + note[1:]}}
}

func replicasOf(cacheNode *v1alpha1.CacheNode) int { return int(ptr.Deref(cacheNode.Spec.Replicas, 1)) }
