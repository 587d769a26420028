// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import "time"

const (
	// answersWithin is how long windows-controller takes at most to begin an operation, or to observe the spec of a pool, if it works and is not
	// busy. One that takes over from another that ended in good order may need up to a minute.
	answersWithin = 30 * time.Second
	// givenUpAfter is for how long the spec of a pool is not observed until nobody waits for that any more, so that a pipeline does not wait for ever.
	// A windows-controller that takes over from another that was lost with its node is the leader after 195 seconds at most.
	givenUpAfter = 4 * time.Minute
)

// seeController is how to find out whether windows-controller works. The namespace is that of the manifests: the API does not say another one.
const seeController = "See whether one of its pods is ready and has the Lease: kubectl get lease,pods -n openshift-windows-machine-config-operator"
