// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/drain"
)

// TestMarkedFor: the mark counts while the Node is cordoned, and for its purpose alone.
func TestMarkedFor(t *testing.T) {
	for _, tt := range []struct {
		mark     string
		cordoned bool
		want     string
	}{
		{"op-1 Reboot (asked for by alice)", true, "op-1"},
		{"op-1 Reboot", true, "op-1"},
		{"op-1 Reboot (asked for by alice)", false, ""},
		{"op-1 Reconfigure (asked for by alice)", true, ""},
		{"op-1 (asked for by Reboot)", true, ""},
		{"", true, ""},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{drain.CordonedByAnnotation: tt.mark}}, Spec: corev1.NodeSpec{Unschedulable: tt.cordoned}}
		if got := drain.MarkedFor(node, "Reboot"); got != tt.want {
			t.Errorf("%q, cordoned %t: got %q, want %q", tt.mark, tt.cordoned, got, tt.want)
		}
	}
}
