// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package source

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reporter emits Warning events about problems of objects of one kind, each once
// and not at every pass. After a restart each problem is reported once more. It is
// safe for concurrent use.
type Reporter struct {
	recorder events.EventRecorder

	mu   sync.Mutex // guards told
	told map[types.NamespacedName]told
}

// told is what was last reported about one object.
type told struct {
	uid      types.UID
	problems map[string]string // by subject
}

// NewReporter returns a Reporter that emits through recorder.
func NewReporter(recorder events.EventRecorder) *Reporter {
	return &Reporter{recorder: recorder, told: map[types.NamespacedName]told{}}
}

// Report emits an event about obj for each of problems that is new or has a new
// message; problems are messages by what they are about. A problem that went away
// and comes back is reported again. Reason and action are those of the events, in
// CamelCase.
func (r *Reporter) Report(obj client.Object, reason, action string, problems map[string]string) {
	key := client.ObjectKeyFromObject(obj)
	r.mu.Lock()
	before := r.told[key]
	if len(problems) == 0 {
		delete(r.told, key)
	} else {
		r.told[key] = told{uid: obj.GetUID(), problems: maps.Clone(problems)}
	}
	r.mu.Unlock()

	for _, subject := range slices.Sorted(maps.Keys(problems)) {
		message := problems[subject]
		if last, ok := before.problems[subject]; ok && last == message && before.uid == obj.GetUID() {
			continue
		}
		r.recorder.Eventf(obj, nil, corev1.EventTypeWarning, reason, action, "%s", EventNote(message))
	}
}

// Forget drops what was reported about an object that is gone.
func (r *Reporter) Forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, key)
}
