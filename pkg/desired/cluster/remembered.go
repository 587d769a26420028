// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// maxRemembered bounds of how many hosts revisions are remembered, also of those that are gone: when there are as many it begins again. Each takes about 2 KiB.
const maxRemembered = 20_000

// buildFunc is [document.Build].
type buildFunc func(document.Inputs) (*document.Result, error)

// remembered has the revisions of documents that were built, and what was said of them, so that they need not be built
// again to be compared: a host is looked at two dozen times while it becomes a node, and twice each time it is probed. A document is a pure
// function of its inputs, and they are what is compared. It is safe for concurrent use.
type remembered struct {
	build buildFunc

	mu sync.Mutex // guards what follows
	// of is the snapshot that they were built from. With another one all inputs are others.
	of    *Snapshot
	hosts map[types.UID][]builtOf
}

// builtOf is what was built of inputs. It is never changed.
type builtOf struct {
	inputs document.Inputs
	result document.Result
}

// forHost returns what builds the documents of a host, without their content: of a snapshot there may be several for one host, one after the other.
func (m *remembered) forHost(s *Snapshot, uid types.UID) buildFunc {
	nth := -1
	return func(in document.Inputs) (*document.Result, error) {
		nth++
		if known := m.get(s, uid, nth); known != nil && reflect.DeepEqual(&known.inputs, &in) {
			result := known.result
			return &result, nil
		}
		built, err := m.build(in)
		if err != nil {
			return nil, err
		}
		result := document.Result{Revision: built.Revision, Waiting: built.Waiting, Warnings: built.Warnings}
		m.put(s, uid, nth, builtOf{in, result})
		return &result, nil
	}
}

// get returns what was built n-th for a host. Nil: nothing.
func (m *remembered) get(s *Snapshot, uid types.UID, n int) *builtOf {
	m.mu.Lock()
	defer m.mu.Unlock()
	if host := m.hosts[uid]; m.of == s && n < len(host) {
		return &host[n]
	}
	return nil
}

// put remembers what was built n-th for a host.
func (m *remembered) put(s *Snapshot, uid types.UID, n int, built builtOf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != s || m.hosts == nil || len(m.hosts) >= maxRemembered { // also what hosts had that are gone
		m.of, m.hosts = s, map[types.UID][]builtOf{}
	}
	host := m.hosts[uid]
	if n > len(host) { // meanwhile there was another snapshot
		return
	}
	m.hosts[uid] = append(host[:n:n], built)
}
