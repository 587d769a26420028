// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestClusterClientIsNotLimited(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	client, err := clusterClient(config)
	if err != nil {
		t.Fatal(err)
	}
	if limiter := client.CoreV1().RESTClient().GetRateLimiter(); limiter != nil {
		t.Errorf("logs are opened at most %v times a second", limiter.QPS())
	}
	if config.QPS != 0 {
		t.Error("the configuration of others was changed")
	}
}
