package manifest

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/internal/effective"
)

// generation returns a template with claims for disks.
func generation(disks ...string) Template {
	t := Template{InputHash: disks[len(disks)-1]}
	for _, d := range disks {
		claim := corev1.PersistentVolumeClaim{}
		claim.Name = d
		t.Claims = append(t.Claims, claim)
	}
	return t
}

func TestAPodFitsATemplateOfItsVolumes(t *testing.T) {
	before, after := []string{"a", "b"}, []string{"a", "b", "c"}
	next := generation(after...)
	next.Before = []Template{generation(before...)}
	fewer := generation(before...)
	fewer.Before = []Template{generation(after...)}
	type volumes = map[int][]string
	tests := map[string]struct {
		template Template
		pods     volumes
		want     string
	}{
		"all are there":                          {next, volumes{0: before, 1: before, 2: before}, "c"},
		"the first is being replaced":            {next, volumes{1: before, 2: before}, "c"},
		"the second is":                          {next, volumes{0: after, 2: before}, "c"},
		"the last crashes before it is its turn": {next, volumes{0: before, 1: before}, "b"},
		"and in the middle of it":                {next, volumes{0: after, 1: before}, "b"},
		"it is its turn":                         {next, volumes{0: after, 1: after}, "c"},
		"the second and the last are missing":    {next, volumes{0: after}, "c"},
		"a disk less: any order will do":         {fewer, volumes{0: after, 1: after}, "b"},
		"there is no pod":                        {next, volumes{}, "c"},
		"nothing of before would do":             {next, volumes{0: {"a"}, 1: before}, "c"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.template.Makeable(tt.pods, 3); got.InputHash != tt.want {
				t.Errorf("the template is the one with %s, want %s", got.InputHash, tt.want)
			}
		})
	}
}

// TestAddingADiskEndsWithAllPods simulates the StatefulSet controller while a disk is added and pods crash at random
// steps. A missing pod must be created at the next step. In the end, all pods must have the disk.
func TestAddingADiskEndsWithAllPods(t *testing.T) {
	before, after := []string{"a", "b"}, []string{"a", "b", "c"}
	next := generation(after...)
	next.Before = []Template{generation(before...)}
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		replicas := 1 + random.IntN(6)
		pods := map[int][]string{}
		for i := range replicas {
			pods[i] = before
		}
		for step := range 100 {
			if step < 60 && random.IntN(3) == 0 {
				delete(pods, random.IntN(replicas)) // a crash
			}
			set := next.Makeable(pods, replicas)
			for ordinal := range replicas { // the StatefulSet controller stops at a pod that lacks a volume
				if has, exists := pods[ordinal]; exists && set.isLacking(has) {
					break
				} else if !exists {
					pods[ordinal] = nil
					for _, c := range set.Claims {
						pods[ordinal] = append(pods[ordinal], c.Name)
					}
				}
			}
			if len(pods) < replicas {
				continue
			}
			for ordinal := range replicas { // the operator deletes the lowest pod that lacks a volume
				if next.isLacking(pods[ordinal]) {
					delete(pods, ordinal)
					break
				}
			}
		}
		if len(pods) < replicas || next.IsOrdered(pods) {
			t.Errorf("seed %d: the pods have %v", seed, pods)
		}
	}
}

// TestImagesOfNewTemplates checks that a pod template has the operator's nginx image if the CacheNode names no image. A
// new image of the operator does not change this template. After a restart, the new template has the new image.
func TestImagesOfNewTemplates(t *testing.T) {
	image := func(t *testing.T, in PodInput, before Template, images Images) (string, Template) {
		t.Helper()
		previous, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		next, _, err := NewTemplate(in, string(previous), nil, images, "0123456789ab")
		if err != nil {
			t.Fatal(err)
		}
		return next.Template.Spec.Containers[0].Image, next
	}
	first, later := Images{Agent: "agent:1", Nginx: "nginx:1"}, Images{Agent: "agent:2", Nginx: "nginx:2"}
	for name, tt := range map[string]struct{ names, atFirst, restarted string }{
		"the operator's": {"", "nginx:1", "nginx:2"},
		"its own":        {"mirror:1", "mirror:1", "mirror:1"},
	} {
		t.Run(name, func(t *testing.T) {
			in := PodInput{Name: "edge"}
			in.Pod.Image = tt.names
			got, template := image(t, in, Template{}, first)
			upgraded, template := image(t, in, template, later)
			if got != tt.atFirst || upgraded != tt.atFirst {
				t.Errorf("at first %s, after an upgrade of the operator %s, want %s", got, upgraded, tt.atFirst)
			}
			if tt.names == "" {
				former := in
				former.Pod.Image = effective.FormerImage // the default that an older CRD stores
				if got, _ := image(t, former, template, later); got != tt.atFirst {
					t.Errorf("with the default of an older CRD %s, want %s", got, tt.atFirst)
				}
			}
			in.Restart = "now"
			if got, _ := image(t, in, template, later); got != tt.restarted {
				t.Errorf("after a restart %s, want %s", got, tt.restarted)
			}
			if tt.names == "" {
				in.Pod.Image = effective.FormerImage
				if got, _ := image(t, in, template, later); got != tt.restarted {
					t.Errorf("after a restart with the default of an older CRD %s, want %s", got, tt.restarted)
				}
			}
		})
	}
}

// TestEditTakenBack checks that the earlier template returns while some pods of this template exist. If no such pods
// are left, a new template with the present images is created, because the earlier images may have security holes.
func TestEditTakenBack(t *testing.T) {
	in := PodInput{Name: "edge"}
	hash, err := in.Hash()
	if err != nil {
		t.Fatal(err)
	}
	edited := in
	edited.Pod.Image = "mirror:1"
	for name, tt := range map[string]struct {
		pods []string // the input hash of each running pod
		want string
	}{
		"no pod is replaced":       {[]string{hash, hash}, "nginx:1"},
		"one pod is not replaced":  {[]string{"another", hash}, "nginx:1"},
		"all pods are replaced":    {[]string{"another", "another"}, "nginx:2"},
		"there are no pods at all": {nil, "nginx:2"},
	} {
		t.Run(name, func(t *testing.T) {
			var text []byte
			var got Template
			for _, step := range []struct {
				in     PodInput
				images Images
			}{{in, Images{Nginx: "nginx:1"}}, {edited, Images{Nginx: "nginx:1"}}, {in, Images{Nginx: "nginx:2"}}} {
				var err error
				if got, _, err = NewTemplate(step.in, string(text), tt.pods, step.images, "0123456789ab"); err != nil {
					t.Fatal(err)
				}
				if text, err = json.Marshal(got); err != nil {
					t.Fatal(err)
				}
			}
			if image := got.Template.Spec.Containers[0].Image; image != tt.want || got.InputHash != hash {
				t.Errorf("the image is %s, want %s", image, tt.want)
			}
		})
	}
}
