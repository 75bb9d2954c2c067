"""`spindle app-server`: threads and turns for editors and SDKs, as JSON-RPC over lines."""
