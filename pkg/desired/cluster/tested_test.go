// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
)

// isUntested says whether a warning is about the version of the API server.
func isUntested(warning string) bool { return strings.Contains(warning, "was tested with") }

// TestUntestedVersions: on a cluster that is older or newer than those of the tests hosts are configured as on others, and it is said
// in the same words for each patch.
func TestUntestedVersions(t *testing.T) {
	const older, later = "older than those that this release was tested with (1.36 to 1.37): hosts are configured all the same; upgrade the cluster, or use an older release of this project",
		"newer than those that this release was tested with (1.36 to 1.37): hosts are configured all the same; install a newer release of this project"
	tested := build(t, read(t, settings(), openShiftCluster()), cluster.Host{Instance: instance()}).Revision
	for server, want := range map[string]string{
		"1.40.2":     "the API server is of Kubernetes 1.40, " + later,
		"1.38.0-rc0": "the API server is of Kubernetes 1.38, " + later,
		"1.37.9":     "",
		"1.36":       "", // which another one emulates
		"":           "",
	} {
		s := settings()
		s.ServerVersion = func(context.Context) (cluster.Servers, error) {
			if server == "" {
				return cluster.Servers{}, nil
			}
			return cluster.Servers{Lowest: utilversion.MustParseGeneric(server), Settled: true}, nil
		}
		got := build(t, read(t, s, openShiftCluster()), cluster.Host{Instance: instance()})
		if got.Revision != tested {
			t.Errorf("%q: hosts are configured in another way", server)
		}
		said := slices.DeleteFunc(got.Warnings, func(w string) bool { return !isUntested(w) })
		if text := strings.Join(said, "; "); text != want {
			t.Errorf("%q: got %q, want %q", server, text, want)
		}
	}
	// A payload for it is another matter.
	if got, want := cluster.Untested(cluster.Servers{Lowest: utilversion.MustParseGeneric("1.35.9")}), "the API server is of Kubernetes 1.35, "+older; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTestedVersions: the API server of the tests is of the version of the libraries, and the one that it emulates is the oldest that is said.
func TestTestedVersions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "\tk8s.io/client-go v0.")
	library, _, _ := strings.Cut(line, ".")
	if got, want := cluster.NewestTested.String(), "1."+library; got != want {
		t.Errorf("the newest is %s, and the libraries are of %s", got, want)
	}
	if text, err = os.ReadFile(filepath.Join("..", "..", "..", "test", "e2e", "minors_test.go")); err != nil {
		t.Fatal(err)
	}
	if want := `"--emulated-version=` + cluster.OldestTested.String() + `"`; !strings.Contains(string(text), want) {
		t.Errorf("no API server of the tests has %s", want)
	}
}
