"""A small shop's spec, whole enough to try every rule of the loader on, and short enough to read."""

from __future__ import annotations

from typing import Any

from leyden.server.contract.document.yaml_loader import read_yaml

SMALL = """
openapi: 3.1.0
info: {title: A shop, version: 1.2.0}
x-limits: {bodyBytes: 2048, depth: 8}
security: [{apikey: []}]
paths:
  /v0/orders:
    post:
      operationId: createOrder
      summary: Order something
      x-basis: specification
      parameters:
        - $ref: '#/components/parameters/Retry'
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/NewOrder'}
            examples:
              tea: {value: {amount: '50', note: tea, hookUrl: 'https://shop.example/hook'}}
      responses:
        '200':
          description: The order.
          headers:
            Access-Control-Allow-Origin: {schema: {type: string, const: '*'}}
            Replayed: {schema: {type: string}}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/OrderAnswer'}
          links:
            get: {operationId: getOrder, parameters: {id: $response.body#/data/id}}
        '400': {$ref: '#/components/responses/Refused'}
        '401': {$ref: '#/components/responses/Refused'}
        '404': {$ref: '#/components/responses/Refused'}
        '406': {$ref: '#/components/responses/Refused'}
        '409': {$ref: '#/components/responses/Refused'}
        '413': {$ref: '#/components/responses/Refused'}
        '415': {$ref: '#/components/responses/Refused'}
        '500': {$ref: '#/components/responses/Refused'}
      callbacks:
        orderUpdated:
          '{$request.body#/hookUrl}':
            x-delivery:
              events: {paid: order.paid}
              form: flat
              attempts: [0, 5s, 5m]
              jitter: 0.2
              retryAfterTimes: 2
              connectTimeout: 3s
              timeout: 15s
              inFlight: 8
              secretRotation: 24h
              basis: decision
              decision: delivery
            post:
              parameters:
                - {name: webhook-id, in: header, required: true, schema: {type: string}, example: msg_1}
              requestBody:
                content:
                  application/json:
                    schema: {$ref: '#/components/schemas/Order'}
                    example: {id: 1c6e6bfb-6a3c-4b8e-9d43-0a1d4e6ec7a1, status: paid, amount: '50', note: null}
              responses:
                '200': {description: No other status ends it.}
                '410': {description: No more.}
  /v0/orders/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string, format: uuid}}
    get:
      operationId: getOrder
      x-basis: decision
      x-decision: paths
      responses:
        '200':
          description: The order.
          content:
            application/json:
              schema: {$ref: '#/components/schemas/OrderAnswer'}
              examples:
                one: {$ref: '#/components/examples/Order'}
        '400': {$ref: '#/components/responses/Refused'}
        '401': {$ref: '#/components/responses/Refused'}
        '404': {$ref: '#/components/responses/Refused'}
        '406': {$ref: '#/components/responses/Refused'}
        '413': {$ref: '#/components/responses/Refused'}
        '500': {$ref: '#/components/responses/Refused'}
  /pay/{id}:
    get:
      operationId: payOrder
      x-basis: specification
      x-errors-as: lnurl
      security: []
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: limit, in: query, schema: {type: integer, minimum: 1, default: 100}, example: 5}
      responses:
        '200':
          description: What a wallet needs.
          content: {application/json: {schema: {type: object}}}
        '406': {$ref: '#/components/responses/Refused'}
        '413': {$ref: '#/components/responses/Refused'}
        '500': {$ref: '#/components/responses/Refused'}
components:
  securitySchemes:
    apikey: {type: apiKey, in: header, name: apikey}
  parameters:
    Retry: {name: Idempotency-Key, in: header, schema: {type: string, maxLength: 20}}
  examples:
    Order:
      value:
        success: true
        data: {id: 1c6e6bfb-6a3c-4b8e-9d43-0a1d4e6ec7a1, status: new, amount: '50', note: tea}
  responses:
    Refused:
      description: No.
      content: {application/problem+json: {schema: {$ref: '#/components/schemas/Problem'}}}
  schemas:
    Problem: {type: object, required: [status], properties: {status: {type: integer}}}
    Amount: {type: string, pattern: '^[1-9][0-9]{0,5}$', examples: ['50']}
    NewOrder:
      type: object
      required: [amount]
      properties:
        amount: {$ref: '#/components/schemas/Amount', x-expect: whole coins as a text}
        note: {type: [string, 'null'], maxLength: 10, default: null}
        hookUrl: {type: string, format: uri}
        days: {type: [integer, string, 'null'], maximum: 30, default: 7, x-absent: [0, null, '']}
        weight: {type: number}
    Order:
      type: object
      required: [id, status, amount, note]
      additionalProperties: false
      properties:
        id: {type: string, format: uuid}
        amount: {$ref: '#/components/schemas/Amount'}
        note: {type: [string, 'null']}
        status:
          type: string
          enum: [new, paid, gone]
          x-lifecycle:
            - {from: (creation), trigger: created, to: new, basis: specification}
            - {from: new, trigger: paid, when: in_time, to: paid, effects: [notify], basis: specification}
            - {from: new, trigger: paid, refuse: too_late, because: The time is over., basis: decision, decision: late}
            - {from: new, trigger: time_up, to: gone, effects: [], basis: specification}
            - {from: paid, trigger: paid, refuse: already_paid, because: It is paid., basis: specification}
            - {from: paid, trigger: time_up, refuse: already_paid, because: It is paid., basis: specification}
            - {from: gone, trigger: paid, refuse: gone, because: It is gone., basis: specification}
            - {from: gone, trigger: time_up, refuse: gone, because: It is gone., basis: specification}
    OrderAnswer:
      type: object
      required: [success, data]
      properties:
        success: {const: true}
        data: {$ref: '#/components/schemas/Order'}
"""


def small() -> dict[str, Any]:
    """A fresh copy, to be edited."""
    document: dict[str, Any] = read_yaml(SMALL, "small.yaml")
    return document
